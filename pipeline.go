package rulvar

import (
	"context"
	"fmt"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// Stage is one step that every item of a [Pipeline] goes through. Stages of
// different types are joined with [Then].
type Stage[I, O any] func(c *Ctx, in I) (O, error)

// Then joins two stages. Each stage works in a scope of its own, made of its
// place in the line and the item's.
func Then[I, M, O any](first Stage[I, M], next Stage[M, O]) Stage[I, O] {
	return func(c *Ctx, in I) (O, error) {
		mid, err := first(c, in)
		if err != nil {
			var zero O
			return zero, err
		}
		after, err := c.nextStage()
		if err != nil {
			var zero O
			return zero, err
		}
		return next(after, mid)
	}
}

// line is an item's place in a pipeline.
type line struct {
	parent string
	item   int64
	stage  int64
}

// nextStage is the Ctx of the next stage of the item.
func (c *Ctx) nextStage() (*Ctx, error) {
	if c.line == nil {
		return nil, errs.New(errs.Config, "Then", "", "a joined stage runs only within Pipeline")
	}
	c.line.stage++
	return &Ctx{Context: c.Context, seg: c.seg, scope: replay.Stage(c.line.parent, c.line.stage, c.line.item), span: c.span, depth: c.depth, line: c.line}, nil
}

// Pipeline sends every item through the stages, all items at the same time and
// without waiting for each other between stages, and returns how each ended, in
// order. A failing item does not touch the others. Two pipelines in one scope
// share scopes and are told apart by their calls alone: give them different
// prompts, labels or keys.
func Pipeline[I, O any](c *Ctx, items []I, stages Stage[I, O]) ([]Settled[O], error) {
	if stages == nil {
		return nil, errs.New(errs.Config, "Pipeline", "", "there is no stage")
	}
	if err := c.begin("Pipeline"); err != nil {
		return nil, err
	}
	defer c.end()
	results := make([]Settled[O], len(items))
	for i := range results {
		results[i].Err = errExited
	}
	scopeOf := func(i int) string { return replay.Stage(c.scope, 0, int64(i)) }
	err := c.fanOut(len(items), scopeOf, func(i int, bc *Ctx, _ context.CancelCauseFunc) {
		bc.line = &line{parent: c.scope, item: int64(i)}
		results[i].Value, results[i].Err = stages(bc, items[i])
	}, func(i int, p any) { results[i].Err = fmt.Errorf("item %d: %w", i, &panicError{value: p}) })
	return results, err
}
