package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary stand in for the program as the server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestStory(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, command(ctx, nil))
	require.ErrorContains(t, command(ctx, []string{"-ask", "nothing"}), "no tool nothing")
	require.ErrorContains(t, command(ctx, []string{"-server", "'"}), "no command line")
	require.ErrorContains(t, command(ctx, []string{"-server", "no-such-program"}), "could not be started")
}
