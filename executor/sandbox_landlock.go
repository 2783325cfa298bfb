package executor

import (
	"slices"

	"github.com/rulvar/rulvar-go/executor/internal/confine"
	"github.com/rulvar/rulvar-go/internal/process"
)

// newLandlock makes a sandbox of what the kernel lets a process deny itself.
func newLandlock(o *SandboxOptions) (*Sandbox, error) {
	policy := func(dirs ...string) *confine.Policy {
		return &confine.Policy{
			Read: o.Read, ReadIfPresent: append(slices.Clone(systemRead), systemDraw...),
			Write: append(slices.Clone(o.Write), dirs...), WriteIfPresent: systemWrite, Network: o.Network,
		}
	}
	err := probing(func(dir, canary string) error {
		p := policy(dir)
		p.Probe = canary
		file, args, err := confine.Command(p, "", nil)
		if err != nil {
			return err
		}
		return tryRun(&process.Spec{Path: file, Args: args, Dir: dir})
	})
	if err != nil {
		return nil, err
	}
	return &Sandbox{kind: SandboxLandlock, start: func(spec *process.Spec, own string) (err error) {
		p := policy(spec.Dir, own)
		p.Read = append(slices.Clone(p.Read), spec.Path)
		if !slices.ContainsFunc(spec.Env, func(v string) bool { return len(v) > 7 && v[:7] == "TMPDIR=" }) {
			spec.Env = append(spec.Env, "TMPDIR="+own)
		}
		spec.Path, spec.Args, err = confine.Command(p, spec.Path, spec.Args)
		return err
	}}, nil
}
