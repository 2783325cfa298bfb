package argv

import "strings"

// wrappers are the programs and builtins that run the command in their
// arguments and whose options are known. A GNU or BSD option that is missing
// here is taken for one without an argument.
var wrappers = map[string]wrapper{
	"command":          {stop: "vV"},
	"builtin":          {},
	"exec":             {short: "a"},
	"nohup":            {},
	"setsid":           {},
	"nice":             {short: "n", long: " adjustment "},
	"ionice":           {short: "cnpPu", long: " class classdata pid pgid uid "},
	"timeout":          {short: "ks", long: " kill-after signal ", skip: 1},
	"gtimeout":         {short: "ks", long: " kill-after signal ", skip: 1},
	"stdbuf":           {short: "ioe", long: " input output error "},
	"time":             {short: "fo", long: " format output "},
	"gtime":            {short: "fo", long: " format output "},
	"sudo":             {short: "aCcDgHhpRrTtUu", long: " close-from chdir group host prompt chroot role type other-user user command-timeout login-class ", assigns: true, stop: "lvVK", login: "si"},
	"doas":             {short: "aCu", stop: "L"},
	"busybox":          {},
	"toybox":           {},
	"chroot":           {long: " groups userspec ", skip: 1, shell: true},
	"taskset":          {short: "p", skip: 1},
	"chrt":             {short: "TPD", skip: 1},
	"pkexec":           {long: " user "},
	"caffeinate":       {short: "tw"},
	"noglob":           {},
	"nocorrect":        {},
	"dbus-run-session": {long: " config-file dbus-daemon "},
	"xvfb-run":         {short: "enfpsw", long: " error-file server-num auth-file server-args xauth-protocol wait "},
	"fakeroot":         {short: "lsib", long: " lib faked "},
	"torsocks":         {short: "uPap"},
	"proxychains4":     {short: "f"},
	"proxychains":      {short: "f"},
	"unbuffer":         {},
	"rlwrap":           {short: "bcCDfHlMPqsS"},
}

// looseWrappers run a command too, but are written in so many ways that every
// word of theirs is taken for its beginning.
const looseWrappers = " unshare nsenter setpriv prlimit numactl strace ltrace gdb valgrind perf systemd-run systemd-inhibit " +
	"firejail bwrap proot setarch linux32 linux64 arch i386 x86_64 cgexec faketime datefudge catchsegv coproc entr " +
	"runuser script flock scriptlive uscriptlive start-stop-daemon daemonize run-parts runcon newgrp sg chpst softlimit " +
	"setuidgid envuidgid multilog argv0 ld.so ld-linux.so.2 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 qemu-x86_64 rr hyperfine retry "

// runner finds the commands that a command of its name runs.
type runner func(l *looker, words []Word, level int)

// runners are all programs and builtins that run others. The map is filled in
// init because its functions lead back to it.
var runners map[string]runner

func init() {
	runners = map[string]runner{
		"env": lookEnv, "genv": lookEnv, "xargs": lookXargs, "gxargs": lookXargs, "find": lookFind, "gfind": lookFind, "fd": lookFind, "fdfind": lookFind,
		"eval": lookEval, "trap": lookTrap, "watch": lookWatch, "ssh": lookSSH, "su": lookCommandOption, "runuser": lookCommandOption,
		"script": lookCommandOption, "flock": lookCommandOption, "sg": lookCommandOption, "parallel": lookParallel,
		"git": lookGit, "kubectl": lookKubectl, "docker": lookDocker, "podman": lookDocker,
		".": lookSource, "source": lookSource,
	}
	for _, name := range strings.Fields("sh bash dash zsh ksh ksh93 mksh lksh pdksh oksh ash rbash rksh posh yash fish csh tcsh rzsh bash5 hush") {
		runners[name] = lookShell
	}
	for name, wr := range wrappers {
		runners[name] = func(l *looker, words []Word, level int) { l.wrapped(name, &wr, words, level) }
	}
	for _, name := range strings.Fields(looseWrappers) {
		if runners[name] == nil {
			runners[name] = func(l *looker, words []Word, level int) { l.looseSuffixes(name, words, 1, level) }
		}
	}
}

var envWrapper = wrapper{short: "uCSaP", long: " unset chdir split-string argv0 ", assigns: true}

// lookEnv unwraps env, and reads the text of env -S.
func lookEnv(l *looker, words []Word, level int) {
	for i := 1; i < len(words) && words[i].kind == fixed; i++ {
		s := words[i].Text
		text, found := "", false
		switch {
		case strings.HasPrefix(s, "--split-string="):
			text, found = s[len("--split-string="):], true
		case s == "--split-string":
			i, found = i+1, true
		case len(s) > 1 && s[0] == '-' && s[1] != '-':
			k := strings.IndexAny(s, "SuCaP")
			if k < 0 || s[k] != 'S' {
				if k == len(s)-1 {
					i++
				}
				continue
			}
			if text, found = s[k+1:], true; text == "" {
				i++
			}
		case len(s) > 0 && s[0] == '-' || words[i].sets():
			continue
		}
		if !found {
			break
		}
		if text == "" {
			if i >= len(words) {
				return
			}
			if words[i].kind != fixed {
				l.hide(whyText)
				return
			}
			text = words[i].Text
		}
		l.split("env", text, words[min(i+1, len(words)):], level)
		return
	}
	l.wrapped("env", &envWrapper, words, level)
}

// split reads text as words of a command that more words follow. The text has
// escapes and expansions of its own, which a shell does not know.
func (l *looker) split(via, text string, more []Word, level int) {
	segs, lost := readStrict(text, false)
	if lost != "" || strings.ContainsAny(text, "\\$#") || len(segs) != 1 || len(segs[0].Redirects) > 0 || segs[0].Unclear != "" {
		l.hide(whyText)
		return
	}
	words := []Word{Static(via)}
	for _, a := range segs[0].Assigns {
		words = append(words, Static(a.Name+"="+a.Value.Text))
	}
	words = append(append(words, segs[0].Words...), more...)
	l.wrapped(via, &envWrapper, words, level)
}

var xargsWrapper = wrapper{
	short: "adEILnPsJRS",
	long:  " arg-file delimiter max-lines max-args max-procs max-chars process-slot-var eof replace ",
}

// lookXargs unwraps xargs, which adds words it reads to the command.
func lookXargs(l *looker, words []Word, level int) {
	i, known := xargsWrapper.command(words)
	if !known {
		l.hide(whyInner)
		return
	}
	if i >= len(words) {
		return // xargs alone runs echo
	}
	place := ""
	for k := 1; k < i; k++ {
		switch s := words[k].Text; {
		case s == "-I" || s == "-J" || s == "--replace":
			place = "{}"
			if k+1 < i {
				place = words[k+1].Text
			}
		case strings.HasPrefix(s, "-I"), strings.HasPrefix(s, "-i"):
			if place = s[2:]; place == "" {
				place = "{}"
			}
		case strings.HasPrefix(s, "--replace="):
			place = s[len("--replace="):]
		}
	}
	cmd := filled(words[i:], place)
	if place == "" {
		cmd = append(cmd, unknown(""))
	}
	l.inner("xargs", cmd, level)
}

// filled returns a copy of words in which those that hold the placeholder are
// one unknown word each.
func filled(words []Word, place string) []Word {
	out := append([]Word(nil), words...)
	for i := range out {
		w := &out[i]
		if place == "" || w.kind != fixed {
			continue
		}
		if k := strings.Index(w.Text, place); k >= 0 {
			end := strings.LastIndex(w.Text, place) + len(place)
			*w = dynamic(w.Text, w.Text[:k], w.Text[end:])
		}
	}
	return out
}

// lookFind takes what stands between -exec and ; or + for a command. A word
// that an expansion makes may be -exec.
func lookFind(l *looker, words []Word, level int) {
	for i := 1; i < len(words); i++ {
		if l.looks > maxLooks {
			l.hide(whyTooDeep)
			return
		}
		w := &words[i]
		if w.loosely() && w.kind != fixed {
			l.hide(whyInner)
			continue
		}
		if w.kind == fixed {
			switch w.Text {
			case "-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "-X", "--exec-batch":
			default:
				continue
			}
		} else if w.prefix() != "" && !strings.HasPrefix("-exec", w.prefix()) && !strings.HasPrefix("-ok", w.prefix()) {
			continue
		}
		end := i + 1
		for end < len(words) && words[end].Text != ";" && (words[end].Text != "+" || words[end-1].Text != "{}") {
			end++
		}
		if i+1 < end {
			l.inner("find", filled(words[i+1:end], "{}"), level)
		}
		if w.kind == fixed {
			i = end // what stands between is arguments of that command
		}
	}
}
