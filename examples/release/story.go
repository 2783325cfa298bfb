package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	rulvar "github.com/rulvar/rulvar-go"
)

// story runs until the approval, and lets another process approve and go on.
func story(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "rulvar-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := prepare(ctx, dir); err != nil {
		return err
	}
	fmt.Printf("Process %d starts the run. Plan: check the repository, look for blocking issues, deploy.\n\n", os.Getpid())
	if err := begin(ctx, dir); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Print("\nA second process approves and resumes.\n\n")
	cmd := exec.CommandContext(ctx, self, "approve-and-resume", "-dir", dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the second process: %w", err)
	}
	return account(dir)
}

func second(ctx context.Context, dir string) error {
	fmt.Printf("Process %d knows nothing but the directory.\n", os.Getpid())
	engine, err := approver(dir)
	if err != nil {
		return err
	}
	list, err := engine.Pending(ctx)
	if err != nil {
		return err
	}
	for _, p := range list {
		if err := decide(ctx, dir, p.Key, rulvar.Approve("the checks are green")); err != nil {
			return err
		}
	}
	fmt.Println()
	return resume(ctx, dir)
}

// account shows, from what the tools and the model have written down
// themselves, that nothing happened twice.
func account(dir string) error {
	lines, err := readLedger(dir)
	if err != nil {
		return err
	}
	fmt.Println("\nWhat really happened, as the tools and the model wrote it down:")
	once := true
	for i, line := range lines {
		fmt.Println("  " + line)
		_, what, _ := strings.Cut(line, " ")
		once = once && !slices.ContainsFunc(lines[:i], func(l string) bool { return strings.HasSuffix(l, " "+what) })
	}
	switch {
	case once:
		fmt.Println("Nothing ran twice and no turn was paid twice.")
	case stoodIn():
		return fmt.Errorf("something happened twice")
	default:
		fmt.Println("What stands there twice, the model has asked for twice.")
	}
	return nil
}

// show prints the events that tell the story.
func show(ev rulvar.Event) {
	switch b := ev.Body.(type) {
	case rulvar.AgentStarted:
		fmt.Printf("agent %s on %s%s\n", b.AgentType, b.Model, again(ev))
	case rulvar.ToolEnded:
		why := string(b.DecidedBy)
		if b.Layer != "" {
			why += ", " + string(b.Layer)
		}
		if !b.Rule.IsZero() {
			why += " " + b.Rule.String()
		}
		fmt.Printf("  %-15s %-5s by %-45s -> %s (%d ms)\n", b.ToolName, b.Verdict, why, b.Outcome, b.DurationMs)
	case rulvar.ApprovalPending:
		fmt.Printf("  %-15s ask      waits for an approval%s\n", b.ToolName, again(ev))
	case rulvar.ResolutionApplied:
		fmt.Printf("  answer to entry %d arrived from %s\n", b.TargetRef, b.By)
	case rulvar.PolicyWarning:
		fmt.Printf("  warning: %s\n", b.Message)
	}
}

func again(ev rulvar.Event) string {
	if ev.Replayed {
		return " (again)"
	}
	return ""
}

func showPending(p rulvar.Pending) {
	fmt.Printf("\n  key    %s\n  run    %s\n  asked  %s\n", p.Key, p.RunID, p.Since.Local().Format("15:04:05"))
	if c := p.Call; c != nil {
		fmt.Printf("  agent  %s\n  tool   %s (risk %s)\n  input  %s\n  why    %s %s\n", c.AgentPath, c.Tool, c.Risk, c.Input, c.DecidedBy, c.Reason)
	}
}
