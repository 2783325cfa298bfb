package progress

import (
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// terminalSize returns a function that tells the size of the console w is, or
// nil where it is none that understands escape sequences.
func terminalSize(w io.Writer) func() (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	h := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(h, &mode) != nil || windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) != nil {
		return nil
	}
	return func() (columns, rows int) {
		var info windows.ConsoleScreenBufferInfo
		if windows.GetConsoleScreenBufferInfo(h, &info) != nil {
			return 80, 24
		}
		return int(info.Window.Right-info.Window.Left) + 1, int(info.Window.Bottom-info.Window.Top) + 1
	}
}
