package rulvar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
	"github.com/rulvar/rulvar-go/internal/jcs"
)

func settledStatus(err error) string {
	if e, ok := errors.AsType[*rulvar.Error](err); ok {
		if status, ok := e.Data["status"].(string); ok {
			return status
		}
	}
	return "error"
}

// caughtFacts is what a workflow sees of an error it catches.
func caughtFacts(err error) map[string]any {
	e, ok := errors.AsType[*rulvar.Error](err)
	if !ok {
		return map[string]any{"caught": "Error"}
	}
	names := map[rulvar.Code]string{
		rulvar.ErrAgent: "AgentCallError", rulvar.ErrConfig: "ConfigError",
		rulvar.ErrAdmissionRejected: "AdmissionRejectedError", rulvar.ErrBudgetExhausted: "BudgetExhaustedError",
	}
	facts := map[string]any{"caught": names[e.Code]}
	if names[e.Code] == "" {
		facts["caught"] = "Error"
	}
	if kind := e.Data["kind"]; e.Code == rulvar.ErrAgent {
		facts["kind"] = kind
	} else {
		facts["code"] = e.Code
	}
	return facts
}

// text fills a template whose value is text.
func text(template json.RawMessage, vars fixtureVars) (string, error) {
	v, err := fill(template, vars)
	if err != nil {
		return "", err
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return string(v), nil
	}
	return s, nil
}

// fill puts values in place of {"$var":name}, {"$concat":[…]} and
// {"$repeat":{text,times}}, also inside arrays.
func fill(template json.RawMessage, vars fixtureVars) (json.RawMessage, error) {
	if template == nil {
		return json.RawMessage("null"), nil
	}
	var form struct {
		Var    *string           `json:"$var"`
		Concat []json.RawMessage `json:"$concat"`
		Repeat *struct {
			Text  string
			Times int
		} `json:"$repeat"`
	}
	var list []json.RawMessage
	switch {
	case json.Unmarshal(template, &list) == nil && list != nil:
		for i := range list {
			v, err := fill(list[i], vars)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return json.Marshal(list)
	case json.Unmarshal(template, &form) != nil:
		return plainJSON(template)
	case form.Var != nil:
		v, ok := vars[*form.Var]
		if !ok {
			return nil, fmt.Errorf("no variable %q", *form.Var)
		}
		return plainJSON(v)
	case form.Concat != nil:
		var b strings.Builder
		for _, part := range form.Concat {
			s, err := text(part, vars)
			if err != nil {
				return nil, err
			}
			b.WriteString(s)
		}
		return mustText(b.String()), nil
	case form.Repeat != nil:
		return mustText(strings.Repeat(form.Repeat.Text, form.Repeat.Times)), nil
	}
	return plainJSON(template)
}

// mustText writes a string or a number.
func mustText(v any) json.RawMessage {
	out, err := jcs.AppendTree(nil, v)
	if err != nil {
		return json.RawMessage(`"` + err.Error() + `"`)
	}
	return out
}
