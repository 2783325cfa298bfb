package rulvartest

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
)

// blobObligations are what is asked of blobs.
var blobObligations = []obligation{
	{"blob-read-your-writes", blobsAreRead},
	{"blob-any-bytes", blobsHoldAnyBytes},
	{"blob-replace", blobsAreReplaced},
	{"blob-replace-is-whole", blobsAreWhole},
	{"blob-missing", missingBlobs},
	{"blob-list", blobsAreListed},
	{"blob-delete", blobsAreDeleted},
	{"blob-keeps-a-copy", blobsAreCopies},
	{"blob-apart-from-records", blobsAreApart},
	{"blob-context-cancelled-before", cancelledBlobCalls},
	{"blob-safe-names-refused", unsafeRefsAreRefused},
	{"blob-two-handles", blobsOfTwoHandles},
}

func (u *underTest) put(ref string, data []byte) {
	u.Helper()
	u.ok("Put "+ref, u.s.Put(u.ctx, ref, data))
}

// blob ends the test where a blob is not exactly this; nil is none.
func (u *underTest) blob(ref string, want []byte) {
	u.Helper()
	got, err := u.s.Get(u.ctx, ref)
	u.ok("Get "+ref, err)
	if (got == nil) != (want == nil) || !bytes.Equal(got, want) {
		u.Fatalf("Get %s: %d bytes %.60q (nil: %t), want %d bytes %.60q (nil: %t)", ref, len(got), got, got == nil, len(want), want, want == nil)
	}
}

func (u *underTest) refs(runID string, want ...string) {
	u.Helper()
	got, err := u.s.List(u.ctx, runID)
	u.ok("List "+runID, err)
	same(u, "the blobs of "+runID, append([]string{}, want...), append([]string{}, got...))
}

// newRun makes a run for blobs to belong to.
func (u *underTest) newRun(ids ...string) {
	u.Helper()
	for _, id := range ids {
		u.release(u.started(id, 1))
	}
}

// What Put has acknowledged, Get and List show.
func blobsAreRead(u *underTest) {
	u.newRun("r1")
	for i := range 5 {
		ref, data := fmt.Sprintf("r1/ckpt/%d", i), fmt.Appendf(nil, "data %d", i)
		u.put(ref, data)
		u.blob(ref, data)
	}
	u.blob("r1/ckpt/0", []byte("data 0"))
	u.refs("r1", "r1/ckpt/0", "r1/ckpt/1", "r1/ckpt/2", "r1/ckpt/3", "r1/ckpt/4")
}

// A blob is bytes: none of them, all of them, a great many.
func blobsHoldAnyBytes(u *underTest) {
	u.newRun("r1")
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	u.put("r1/x/every", every)
	u.put("r1/x/empty", []byte{})
	u.put("r1/x/nil", nil)
	large := bytes.Repeat(every, 1<<12) // 1 MiB
	u.put("r1/x/large", large)
	u.blob("r1/x/every", every)
	u.blob("r1/x/empty", []byte{})
	u.blob("r1/x/nil", []byte{})
	u.blob("r1/x/large", large)
	u.refs("r1", "r1/x/empty", "r1/x/every", "r1/x/large", "r1/x/nil")
}

// Put replaces what stood there, longer or shorter.
func blobsAreReplaced(u *underTest) {
	u.newRun("r1")
	for _, text := range []string{"first", "a longer second one", "3", "", "fifth"} {
		u.put("r1/ckpt/0", []byte(text))
		u.blob("r1/ckpt/0", []byte(text))
		u.refs("r1", "r1/ckpt/0")
	}
}

// Who reads while a blob is replaced gets the old one or the new one.
func blobsAreWhole(u *underTest) {
	u.newRun("r1")
	version := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 40_000+i*1000) }
	u.put("r1/ckpt/0", version(0))
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				got, err := u.s.Get(u.ctx, "r1/ckpt/0")
				if err != nil {
					u.Errorf("Get while it is replaced: %v", err)
					return
				}
				if len(got) == 0 || !bytes.Equal(got, version(int(got[0]-'a'))) {
					u.Errorf("Get while it is replaced: %d bytes that nobody wrote", len(got))
					return
				}
			}
		})
	}
	for i := range 12 {
		if err := u.s.Put(u.ctx, "r1/ckpt/0", version(i)); err != nil {
			u.Errorf("Put: %v", err)
		}
	}
	done.Store(true)
	wg.Wait()
}

// A blob that is not there is nil, and no error.
func missingBlobs(u *underTest) {
	u.blob("none/ckpt/0", nil)
	u.newRun("r1")
	u.put("r1/ckpt/0", []byte("x"))
	for _, ref := range []string{"r1/ckpt/1", "r1/ckpt", "r1/ckpt/0/x", "r1/CKPT/0", "r10/ckpt/0"} {
		u.blob(ref, nil)
	}
	u.refs("none")
	u.refs("r10")
}

// List returns the blobs of one run, sorted as text.
func blobsAreListed(u *underTest) {
	u.newRun("r1", "r10", "r")
	for _, ref := range []string{"r1/tr/2", "r1/ckpt/10", "r1/ckpt/9", "r1/a", "r10/ckpt/0", "r/x", "r1/deep/er/and/deeper"} {
		u.put(ref, []byte(ref))
	}
	u.refs("r1", "r1/a", "r1/ckpt/10", "r1/ckpt/9", "r1/deep/er/and/deeper", "r1/tr/2")
	u.refs("r10", "r10/ckpt/0")
	u.refs("r", "r/x")
}

// DeleteBlob removes one blob; one that is not there is no error.
func blobsAreDeleted(u *underTest) {
	u.newRun("r1")
	u.put("r1/ckpt/1", []byte("one"))
	u.put("r1/ckpt/10", []byte("ten"))
	for range 2 {
		u.ok("DeleteBlob", u.s.DeleteBlob(u.ctx, "r1/ckpt/1"))
		u.blob("r1/ckpt/1", nil)
		u.refs("r1", "r1/ckpt/10")
	}
	u.ok("DeleteBlob of another run's", u.s.DeleteBlob(u.ctx, "none/ckpt/1"))
	u.blob("r1/ckpt/10", []byte("ten"))
	u.put("r1/ckpt/1", []byte("again"))
	u.blob("r1/ckpt/1", []byte("again"))
}

// The store keeps a copy and hands out copies.
func blobsAreCopies(u *underTest) {
	u.newRun("r1")
	data := []byte("as it was")
	u.put("r1/ckpt/0", data)
	copy(data, "spoilt!!!")
	for range 2 {
		got, err := u.s.Get(u.ctx, "r1/ckpt/0")
		u.ok("Get", err)
		if string(got) != "as it was" {
			u.Fatalf("a blob changed with somebody's memory: %q", got)
		}
		copy(got, "spoilt!!!")
	}
}

// Blobs neither change records nor metadata, nor need the lock.
func blobsAreApart(u *underTest) {
	l := u.started("r1", 2)
	before, _ := u.load("r1", -1)
	u.put("r1/ckpt/0", []byte("x"))
	u.append("r1", l, stepEntry("y"))
	u.release(l)
	u.put("r1/tr/0", []byte("y"))
	after, entries := u.load("r1", -1)
	same(u, "metadata after Put", before, after)
	same(u, "records after Put", []int64{0, 1, 2}, seqsOf(entries))
	u.ids("runs after Put", nil, "r1")
	u.refs("r1", "r1/ckpt/0", "r1/tr/0")
}

// A call whose context has ended does nothing and says so.
func cancelledBlobCalls(u *underTest) {
	u.newRun("r1")
	u.put("r1/ckpt/0", []byte("kept"))
	done := u.ended()
	u.cancelled("Put", u.s.Put(done, "r1/ckpt/0", []byte("changed")))
	_, err := u.s.Get(done, "r1/ckpt/0")
	u.cancelled("Get", err)
	_, err = u.s.List(done, "r1")
	u.cancelled("List", err)
	u.cancelled("DeleteBlob", u.s.DeleteBlob(done, "r1/ckpt/0"))
	u.blob("r1/ckpt/0", []byte("kept"))
}

// A ref is a name under its run, not a path.
func unsafeRefsAreRefused(u *underTest) {
	u.refusedNames("Put", badRefs, func(ref string) error { return u.s.Put(u.ctx, ref, nil) })
	u.refusedNames("Get", badRefs, func(ref string) error {
		_, err := u.s.Get(u.ctx, ref)
		return err
	})
	u.refusedNames("DeleteBlob", badRefs, func(ref string) error { return u.s.DeleteBlob(u.ctx, ref) })
	u.refusedNames("List", badRunIDs, func(runID string) error {
		_, err := u.s.List(u.ctx, runID)
		return err
	})
	u.ids("after refused names", nil)
}

// Two handles on one place see the same blobs.
func blobsOfTwoHandles(u *underTest) {
	u.needsOther()
	u.newRun("r1")
	for _, text := range []string{"first", "second"} {
		u.put("r1/ckpt/0", []byte(text))
		got, err := u.other.Get(u.ctx, "r1/ckpt/0")
		u.ok("Get by another handle", err)
		same(u, "a blob that another handle reads", text, string(got))
		u.ok("Put by another handle", u.other.Put(u.ctx, "r1/ckpt/0", []byte(text+" by the other")))
		u.blob("r1/ckpt/0", []byte(text+" by the other"))
	}
	u.ok("DeleteBlob by another handle", u.other.DeleteBlob(u.ctx, "r1/ckpt/0"))
	u.blob("r1/ckpt/0", nil)
	u.refs("r1")
}
