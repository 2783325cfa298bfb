package confine

import (
	"errors"
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// versions are what Landlock can restrict, by its version. Newer kernels are
// asked for what the last one can.
var versions = map[int]landlock.Config{
	4: landlock.V4, 5: landlock.V5, 6: landlock.V6, 7: landlock.V7, 8: landlock.V8, 9: landlock.V9, 10: landlock.V10,
}

const lastVersion = 10

// restrict takes the rights from this process that the policy does not name.
func restrict(p *Policy) error {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return fmt.Errorf("this kernel has no Landlock, or it was not enabled: %w", err)
	}
	if abi < MinABI {
		return fmt.Errorf("this kernel has Landlock %d, and %d is the least that is accepted (Linux 6.7)", abi, MinABI)
	}
	cfg := versions[min(abi, lastVersion)]
	if p.Network {
		cfg.HandledAccessNet = 0
	}
	rules, err := fileRules(p)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := cfg.Restrict(rules...); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if p.Network {
		return nil
	}
	return denySockets()
}

// fileRules are what may be done to files.
func fileRules(p *Policy) ([]landlock.Rule, error) {
	var rules []landlock.Rule
	for _, group := range []struct {
		paths    []string
		optional bool
		dirs     func(...string) landlock.FSRule
		files    func(...string) landlock.FSRule
	}{
		{p.Read, false, landlock.RODirs, landlock.ROFiles},
		{p.ReadIfPresent, true, landlock.RODirs, landlock.ROFiles},
		{p.Write, false, writableDirs, landlock.RWFiles},
		{p.WriteIfPresent, true, writableDirs, landlock.RWFiles},
	} {
		for _, path := range group.paths {
			info, err := os.Stat(path)
			switch {
			case err != nil && group.optional && errors.Is(err, os.ErrNotExist):
			case err != nil:
				return nil, err
			case info.IsDir():
				rules = append(rules, group.dirs(path))
			default:
				rules = append(rules, group.files(path))
			}
		}
	}
	return rules, nil
}

// writableDirs lets files be moved from one directory to another.
func writableDirs(paths ...string) landlock.FSRule { return landlock.RWDirs(paths...).WithRefer() }
