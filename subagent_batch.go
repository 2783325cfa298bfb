package rulvar

import (
	"slices"
	"time"
)

// A batch that is admitted as a whole or not at all is as many records in the
// journal, and a power cut may leave the first of them alone. Each names the
// size of the batch, so that who resumes the run tells a whole batch from its
// beginning. No child of a beginning works. The call, which is repeated then,
// completes the batch or withdraws the beginning: first the children are
// cancelled on the record, then the rest is refused. A batch with a refused
// task, and a beginning of which a child is cancelled, are void: they never
// become whole.

// refuseBatch refuses an admitted record with its batch.
func (r *spawnRecord) refuseBatch() {
	r.Verdict, r.Code, r.Reason = spawnRefused, "batch_atomic", "another task of the batch was refused, and all are spawned or none"
}

// settleBatches adopts the children that the records which were read admit, but
// those of batches that are not whole.
func (o *orchestrator) settleBatches() {
	held := make(map[*spawnRecord]bool)
	for _, b := range o.batches() {
		if isWhole(b) {
			continue
		}
		void := slices.ContainsFunc(b, func(r *spawnRecord) bool { return !r.admitted() || r.child.cancelled })
		for _, r := range b {
			held[r] = true
			if void && r.admitted() {
				r.refuseBatch()
			}
		}
	}
	for _, r := range o.records {
		if r.admitted() && !held[r] {
			o.adopt(r.child)
		}
	}
}

// batches are the batches among the records. Where another conversation has
// made a call anew, no call finds what was decided about it before.
func (o *orchestrator) batches() (out [][]*spawnRecord) {
	at := make(map[string]int) // the last batch of a call
	for _, r := range o.records {
		if r.Batch == 0 {
			continue
		}
		i, begun := at[r.ToolCallID]
		if begun && r.Index == 0 {
			for _, old := range out[i] {
				old.taken = true
			}
		}
		if !begun || r.Index == 0 {
			i = len(out)
			at[r.ToolCallID] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], r)
	}
	return out
}

// isWhole reports whether all tasks of a batch were admitted.
func isWhole(b []*spawnRecord) bool {
	return len(b) == b[0].Batch && !slices.ContainsFunc(b, func(r *spawnRecord) bool { return !r.admitted() })
}

// decideBatch decides about a batch whose beginning, prior, is on the record
// already: all tasks are admitted, or none. It returns all records.
func (o *orchestrator) decideBatch(callID string, specs []spawnSpec, prior []*spawnRecord) ([]*spawnRecord, error) {
	var granted []*spawned // by this process behind those of prior
	var fresh []*spawnRecord
	for _, r := range prior {
		if r.admitted() {
			granted = append(granted, r.child)
		}
	}
	for i := len(prior); i < len(specs); i++ {
		r, ch := o.judge(specs[i], granted)
		r.ToolCallID, r.Index, r.Batch = callID, i, len(specs)
		fresh = append(fresh, r)
		if ch != nil {
			granted = append(granted, ch)
		}
	}
	all := slices.Concat(prior, fresh)
	var cancels []*Entry
	if len(granted) < len(specs) {
		for _, ch := range granted {
			ch.discard()
		}
		for _, r := range all {
			if r.admitted() {
				r.refuseBatch()
			}
		}
		cancels, granted = o.withdraw(prior), nil
	}
	if err := o.record(fresh, cancels...); err != nil {
		for _, ch := range granted {
			ch.discard()
		}
		return nil, err
	}
	for _, ch := range granted {
		o.adopt(ch)
	}
	return all, nil
}

// withdraw are the decisions that cancel what a void batch has admitted.
func (o *orchestrator) withdraw(prior []*spawnRecord) (out []*Entry) {
	now := stamp(time.Now())
	for _, r := range prior {
		if ch := r.child; ch != nil && !ch.cancelled {
			ch.cancelled = true
			out = append(out, o.cancelEntry(ch, "its batch was not admitted as a whole", now))
		}
	}
	return out
}

// discard gives back what a child that does not come to be has reserved.
func (ch *spawned) discard() {
	if ch.release != nil {
		ch.release()
	}
	if ch.cancel != nil {
		ch.cancel(nil)
	}
}
