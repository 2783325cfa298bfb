package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rulvar/rulvar-go/internal/process"
)

// Command returns what starts argv, with path as its file, under a policy: a
// file and its argv.
func Command(p *Policy, path string, argv []string) (file string, args []string, err error) {
	if file, err = process.Self(); err != nil {
		return "", nil, err
	}
	policy, err := json.Marshal(p)
	if err != nil {
		return "", nil, err
	}
	return file, append([]string{Name, Version, string(policy), path}, argv...), nil
}

// init takes the process over where it was started to become another program.
// It runs before the program's main function and before the init functions of
// all that imports this package.
func init() {
	if len(os.Args) >= 4 && os.Args[0] == Name {
		err := takeOver(os.Args[1:])
		if err == nil {
			syscall.Exit(0) // a probe that has found what it should
		}
		fmt.Fprintf(os.Stderr, "%s: the program was not started: %v\n", Name, err)
		syscall.Exit(StatusFailed)
	}
}

// takeOver restricts the process and becomes the program. It returns where that
// fails, and after a probe.
func takeOver(args []string) error {
	if args[0] != Version {
		return errors.New("the host is another build of the program")
	}
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		return errors.New("whoever started it has not the rights it would have")
	}
	var p Policy
	if err := json.Unmarshal([]byte(args[1]), &p); err != nil {
		return err
	}
	if err := restrict(&p); err != nil {
		return err
	}
	if p.Probe != "" {
		return probe(&p)
	}
	if len(args) < 4 || !filepath.IsAbs(args[2]) {
		return errors.New("no program is named")
	}
	return fmt.Errorf("%s: %w", args[2], syscall.Exec(args[2], args[3:], os.Environ()))
}

// probe tries what must not be possible, and what must.
func probe(p *Policy) error {
	if f, err := os.Open(p.Probe); err == nil {
		f.Close()
		return errors.New("the kernel has taken the restriction and does not hold to it: a file outside can be read")
	}
	if err := os.WriteFile("probe", []byte("x"), 0o600); err != nil {
		return fmt.Errorf("the working directory cannot be written: %w", err)
	}
	for _, kind := range []int{syscall.SOCK_STREAM, syscall.SOCK_DGRAM} {
		if fd, err := syscall.Socket(syscall.AF_INET, kind, 0); err == nil {
			syscall.Close(fd)
			if !p.Network {
				return errors.New("the kernel has taken the restriction and does not hold to it: a socket can be made")
			}
		}
	}
	return nil
}
