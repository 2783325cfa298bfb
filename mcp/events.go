package mcp

import "bytes"

// eventScanner finds the data of server-sent events in a stream of bytes:
//
//	data: {"jsonrpc":"2.0",
//	data: "id":1,"result":{}}
//	<blank line>
type eventScanner struct {
	limit int
	each  func(data []byte) error

	line []byte // the line so far
	data []byte // the event so far
	any  bool   // the event has a data line
	cr   bool   // the last byte was a carriage return
}

// write takes the next bytes. Lines end with LF, CR or both.
func (s *eventScanner) write(p []byte) error {
	for len(p) > 0 {
		if s.cr {
			s.cr = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			s.line = append(s.line, p...)
			return s.bounded()
		}
		s.line = append(s.line, p[:i]...)
		s.cr = p[i] == '\r'
		p = p[i+1:]
		if err := s.bounded(); err != nil {
			return err
		}
		if err := s.endLine(); err != nil {
			return err
		}
	}
	return nil
}

func (s *eventScanner) bounded() error {
	if len(s.line)+len(s.data) > s.limit {
		return &tooLongError{s.limit}
	}
	return nil
}

func (s *eventScanner) endLine() error {
	line := s.line
	s.line = s.line[:0]
	if len(line) == 0 {
		data, found := s.data, s.any
		s.data, s.any = s.data[:0], false
		if !found {
			return nil
		}
		return s.each(data)
	}
	value, ok := bytes.CutPrefix(line, []byte("data"))
	if !ok || (len(value) > 0 && value[0] != ':') {
		return nil
	}
	if len(value) > 0 {
		value = bytes.TrimPrefix(value[1:], []byte(" "))
	}
	if s.any {
		s.data = append(s.data, '\n')
	}
	s.data, s.any = append(s.data, value...), true
	return nil
}
