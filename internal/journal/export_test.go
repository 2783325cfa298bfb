package journal

import "runtime"

// AwaitQueue returns when n appends wait for the one that is being written.
func (s *FileStore) AwaitQueue(runID string, n int) {
	r := s.use(runID)
	defer s.drop(r)
	for {
		r.mu.Lock()
		waiting := len(r.queue)
		r.mu.Unlock()
		if waiting >= n {
			return
		}
		runtime.Gosched()
	}
}
