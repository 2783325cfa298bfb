package rulvar

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/rulvar/rulvar-go/internal/jcs"
	"github.com/rulvar/rulvar-go/internal/redact"
)

// maskBody takes secrets out of the free text of an event. Names, ids, keys
// and numbers are not touched; tool inputs and results are there only where
// [Config.EventContent] says so.
func maskBody(body EventBody) EventBody {
	switch b := body.(type) {
	case LogEmitted:
		b.Msg = redact.Text(b.Msg)
		b.Data = maskData(b.Data)
		return b
	case AgentFailed:
		b.Message = redact.Text(b.Message)
		return b
	case AgentDelta:
		b.Delta = redact.Text(b.Delta)
		return b
	case ToolEnded:
		b.Reason = redact.Text(b.Reason)
		b.Input, b.Result = maskJSON(b.Input), maskJSON(b.Result)
		return b
	case ApprovalPending:
		b.Reason = redact.Text(b.Reason)
		return b
	case ExternalWaiting:
		b.Prompt = redact.Text(b.Prompt)
		return b
	case PolicyWarning:
		b.Message = redact.Text(b.Message)
		return b
	}
	return body
}

// maskJSON masks the strings of JSON text. What cannot be read is left out.
func maskJSON(text json.RawMessage) json.RawMessage {
	if text == nil {
		return nil
	}
	tree, err := jcs.Parse(text)
	if err != nil {
		return nil
	}
	masked, err := marshalJSON(redact.Value(tree))
	if err != nil {
		return nil
	}
	return masked
}

func maskData(data map[string]any) map[string]any {
	if data == nil {
		return nil
	}
	out := make(map[string]any, len(data))
	for k, v := range data {
		if raw, ok := v.(json.RawMessage); ok {
			var tree any
			if json.Unmarshal(raw, &tree) == nil {
				v = tree
			}
		}
		out[redact.Text(k)] = redact.Value(v)
	}
	return out
}

// LogEvents returns a listener for RunOptions.OnEvent that writes events to a
// logger: log events at their own level, warnings and failures as warnings, the
// rest as debug. Replayed events are not written.
func LogEvents(l *slog.Logger) func(Event) {
	return func(ev Event) {
		if ev.Replayed {
			return
		}
		ctx := context.Background()
		level, msg := slog.LevelDebug, ev.Body.EventType()
		attrs := []slog.Attr{slog.String("run", ev.RunID), slog.String("span", ev.SpanID)}
		switch b := ev.Body.(type) {
		case LogEmitted:
			level, msg = b.Level, b.Msg
			for k, v := range b.Data {
				attrs = append(attrs, slog.Any(k, v))
			}
		case AgentFailed, PolicyWarning:
			level = slog.LevelWarn
		case ApprovalPending:
			level = slog.LevelInfo
		}
		if !l.Enabled(ctx, level) {
			return
		}
		if _, isLog := ev.Body.(LogEmitted); !isLog {
			attrs = append(attrs, slog.Any("event", ev.Body))
		}
		l.LogAttrs(ctx, level, "rulvar: "+msg, attrs...)
	}
}
