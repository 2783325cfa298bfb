package fetch

import (
	"errors"
	"fmt"

	rulvar "github.com/rulvar/rulvar-go"
)

// opFetch is the Op of every error of a call.
const opFetch = "fetch"

// refused is the error of what the policy does not let happen. Its code is the
// error's, so that it shows in the tool:end event.
func refused(code, format string, args ...any) error {
	return &rulvar.Error{Code: rulvar.Code(code), Op: opFetch, Path: code, Msg: fmt.Sprintf(format, args...), Data: map[string]any{"refused": true}}
}

// failed is the error of what did not work.
func failed(code, msg string, err error) error {
	return &rulvar.Error{Code: rulvar.Code(code), Op: opFetch, Path: code, Msg: msg, Err: err}
}

// isRefusal reports whether an error is the policy's.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*rulvar.Error](err)
	return ok && e.Data["refused"] == true
}

// codeOf is the code of an error of this package.
func codeOf(err error) string {
	if e, ok := errors.AsType[*rulvar.Error](err); ok {
		return string(e.Code)
	}
	return codeRequest
}
