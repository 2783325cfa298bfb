// Command release shows a whole run: an agent checks a repository, searches
// its issues and deploys a service, under a policy that denies one of its calls
// and has a person approve another.
//
//	go run ./examples/release                    the whole story, in two processes
//	go run ./examples/release run     -dir DIR   start a run and stop at the approval
//	go run ./examples/release pending -dir DIR   what waits
//	go run ./examples/release approve -dir DIR KEY
//	go run ./examples/release deny    -dir DIR KEY [REASON]
//	go run ./examples/release resume  -dir DIR   go on
//
// It needs Go and git and nothing else: the model is a small local one that
// reads the tools' results (model.go). Where ANTHROPIC_API_KEY or OPENAI_API_KEY
// is set, a real model does the work (real.go), which costs a few cents.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	rulvar "github.com/rulvar/rulvar-go"
)

const runID = "release-1"

const commands = `usage: go run ./examples/release [command -dir DIR]
without a command the whole story is told, in two processes
  run     -dir DIR               start a run and stop at the approval
  pending -dir DIR               what waits
  approve -dir DIR KEY           approve what waits under the key
  deny    -dir DIR KEY [REASON]  deny it
  resume  -dir DIR               go on with the run`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return story(ctx)
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		fmt.Println(commands)
		return nil
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("dir", "", "the directory that holds the repository and the run")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if *dir == "" {
		return fmt.Errorf("name a subcommand and a directory:\n%s", commands)
	}
	switch args[0] {
	case "run":
		if err := prepare(ctx, *dir); err != nil {
			return err
		}
		return begin(ctx, *dir)
	case "pending":
		return pending(ctx, *dir)
	case "approve":
		return decide(ctx, *dir, flags.Arg(0), rulvar.Approve("approved at the terminal"))
	case "deny":
		reason := flags.Arg(1)
		if reason == "" {
			reason = "denied at the terminal"
		}
		return decide(ctx, *dir, flags.Arg(0), rulvar.Reject(reason))
	case "resume":
		return resume(ctx, *dir)
	case "approve-and-resume": // the second process of the story
		return second(ctx, *dir)
	}
	return fmt.Errorf("unknown subcommand %q\n%s", args[0], commands)
}

func openStore(dir string) (*rulvar.FileStore, error) {
	return rulvar.OpenFileStore(filepath.Join(dir, "runs"), nil)
}

// begin starts the run and follows it until it settles.
func begin(ctx context.Context, dir string) error {
	store, err := openStore(dir)
	if err != nil {
		return err
	}
	engine, err := newEngine(dir, store)
	if err != nil {
		return err
	}
	handle, err := rulvar.Run(ctx, engine, release, releaseArgs{Service: "api"}, &rulvar.RunOptions{RunID: runID, OnEvent: show})
	if err != nil {
		return err
	}
	return report(ctx, handle)
}

// resume goes on with the run.
func resume(ctx context.Context, dir string) error {
	store, err := openStore(dir)
	if err != nil {
		return err
	}
	engine, err := newEngine(dir, store)
	if err != nil {
		return err
	}
	handle, err := rulvar.Resume(ctx, engine, release, runID, &rulvar.ResumeOptions[releaseArgs]{OnEvent: show})
	if err != nil {
		return err
	}
	return report(ctx, handle)
}

func report(ctx context.Context, handle *rulvar.RunHandle[string]) error {
	out, err := handle.Result(ctx)
	if err != nil {
		return err
	}
	switch out.Status {
	case rulvar.RunSuspended:
		fmt.Printf("\nThe run is suspended; this process (%d) may end now.\n", os.Getpid())
		for _, p := range out.Pending {
			showPending(p)
		}
	case rulvar.RunOK:
		fmt.Printf("\nThe run has finished: %s\n", out.Value)
	}
	return nil
}

// pending needs no tools and no model: an engine over the store is enough.
func pending(ctx context.Context, dir string) error {
	engine, err := approver(dir)
	if err != nil {
		return err
	}
	list, err := engine.Pending(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Println("Nothing waits.")
	}
	for _, p := range list {
		showPending(p)
	}
	return nil
}

func decide(ctx context.Context, dir, key string, decision rulvar.ApprovalDecision) error {
	if key == "" {
		return errors.New("name the approval: its key stands in the list of `pending`")
	}
	engine, err := approver(dir)
	if err != nil {
		return err
	}
	out, err := engine.Resolve(ctx, runID, key, decision)
	if err != nil {
		return err
	}
	if !out.Applied {
		fmt.Printf("%s was answered before (%s); nothing changes.\n", key, out.Reason)
		return nil
	}
	fmt.Printf("%s: %s, recorded by process %d.\n", key, decision.Decision, os.Getpid())
	return nil
}

func approver(dir string) (*rulvar.Engine, error) {
	if _, err := os.Stat(filepath.Join(dir, "runs")); err != nil {
		return nil, fmt.Errorf("%s holds no run: start one with \"run -dir %s\" (%w)", dir, dir, err)
	}
	store, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	return rulvar.NewEngine(rulvar.Config{Store: store})
}
