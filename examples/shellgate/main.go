// Command shellgate shows what a set of shell rules says about a command, segment
// by segment. Nothing is ever run.
//
//	go run ./examples/shellgate 'git status && rm -rf build'
//	go run ./examples/shellgate -rules policy.json < commands.txt
//
// A command is the arguments, or each line of the standard input. A policy is a
// JSON file with the members deny, ask, allow and allowEnv; without one, a small
// policy for everyday work is used. The exit status is 0 if every command was
// allowed, 1 if one asks, 2 if one is denied, and 3 if the policy is wrong.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/rulvar/rulvar-go"
)

// everyday is the policy used when there is no file.
var everyday = rulvar.ShellRules{
	Deny: []string{"rm **", "git push --force **", "git push -f **", "** > /etc/passwd"},
	Ask:  []string{"git push **", "curl **"},
	Allow: []string{
		"ls **", "cat *", "echo **", "grep **", "wc **", "cd *", "pwd",
		"git status **", "git diff **", "git log **", "git add **", "git commit **",
		"go build **", "go vet **", "go test **", "go test ** > test.log", "npm test", "npm run *",
	},
	AllowEnv: []string{"CI", "NO_COLOR"},
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is main without the process: it returns the exit status.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	flags := flag.NewFlagSet("shellgate", flag.ContinueOnError)
	flags.SetOutput(errs)
	file := flags.String("rules", "", "a `file` with the rules, as JSON")
	lint := flags.Bool("lint", false, "look at the rules instead of a command")
	asJSON := flags.Bool("json", false, "print the explanation as JSON")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 3
	}
	rules, err := load(*file)
	if err != nil {
		fmt.Fprintln(errs, err)
		return 3
	}
	if *lint {
		return printLint(out, rules)
	}
	matcher, err := rulvar.CompileShellRules(rules)
	if err != nil {
		fmt.Fprintln(errs, err)
		return 3
	}
	status := 0
	judge := func(command string) {
		e := matcher.Explain(command)
		if *asJSON {
			text, _ := json.MarshalIndent(e, "", "  ")
			fmt.Fprintf(out, "%s\n", text)
		} else {
			printExplanation(out, e)
		}
		status = max(status, map[rulvar.Verdict]int{rulvar.VerdictAllow: 0, rulvar.VerdictAsk: 1, rulvar.VerdictDeny: 2}[e.Verdict])
	}
	if flags.NArg() > 0 {
		judge(strings.Join(flags.Args(), " "))
		return status
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		judge(lines.Text())
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(errs, err)
		return 3
	}
	return status
}

// load reads a policy. A member that it does not know is an error: a table that
// is spelled wrong would be a table that is missing.
func load(file string) (rules rulvar.ShellRules, err error) {
	if file == "" {
		return everyday, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return rules, err
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(&rules); err != nil {
		return rules, fmt.Errorf("%s: %w", file, err)
	}
	return rules, nil
}

// printExplanation writes one verdict with its segments.
func printExplanation(out io.Writer, e rulvar.ShellExplanation) {
	fmt.Fprintf(out, "%-5s  %s\n       %s\n", strings.ToUpper(string(e.Verdict)), visible(e.Command), e.Why)
	for _, s := range e.Segments {
		fmt.Fprintf(out, "    %-5s  %s\n", s.Verdict, visible(s.Text))
		fmt.Fprintf(out, "           words   %q\n", s.Words)
		fmt.Fprintf(out, "           because %s\n", s.Why)
		if s.Suggest != "" {
			fmt.Fprintf(out, "           to allow exactly this: %s\n", s.Suggest)
		}
	}
}

// visible spells what a terminal would hide or obey.
func visible(s string) string {
	var b strings.Builder
	for _, c := range s {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return b.String()
}

func printLint(out io.Writer, rules rulvar.ShellRules) int {
	found := rules.Lint()
	for _, l := range found {
		fmt.Fprintf(out, "%s[%d] %s: %s: %s\n", l.Table, l.Index, l.Pattern, l.Kind, l.Message)
	}
	if len(found) > 0 {
		return 1
	}
	return 0
}
