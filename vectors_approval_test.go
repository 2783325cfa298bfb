package rulvar_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rulvar/rulvar-go/internal/errs"
	"github.com/rulvar/rulvar-go/internal/replay"
)

// approvalVector is a case of approval_decision.json: the value of a
// resolution, what it is read as, and whether a resolver may append it.
type approvalVector struct {
	Value     json.RawMessage
	ValueText *string
	Expect    struct {
		Decision struct {
			Decision  string
			Reason    string
			ExpiresAt *string
		}
		AcceptedBeforeAppend bool
	}

	got replay.ApprovalDecision
}

var approvalVectors = newVectorSuite("approval_decision", (*approvalVector).compare, map[string]func(*approvalVector) bool{
	"expiry-rfc3339":  (*approvalVector).otherExpiry,
	"expiry-not-text": (*approvalVector).expiryNotText,
	"lone-surrogate":  func(v *approvalVector) bool { return loneSurrogate(v.value()) },
	"allow-edited":    func(v *approvalVector) bool { return v.got.Input != nil },
})

func (v *approvalVector) value() json.RawMessage { return spelled(v.Value, v.ValueText) }

// otherExpiry: an expiry that the reference's host takes for a date, while it is
// not written as RFC 3339 wants, with a zone.
func (v *approvalVector) otherExpiry() bool {
	at := v.Expect.Decision.ExpiresAt
	if at == nil || !v.Expect.AcceptedBeforeAppend || !strings.ContainsAny(*at, "0123456789") {
		return false
	}
	_, err := time.Parse(time.RFC3339, *at)
	return err != nil
}

// expiryNotText: the reference drops an expiry that is no text, and the allow
// has no end then.
func (v *approvalVector) expiryNotText() bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(v.value(), &members) != nil || members["expiresAt"] == nil {
		return false
	}
	var text *string
	return json.Unmarshal(members["expiresAt"], &text) != nil || text == nil
}

// compare reads the value and asks whether it may be appended. To refuse more,
// to deny, or to let an allow end earlier is stricter.
func (v *approvalVector) compare(t *testing.T) (direction, string) {
	v.got = replay.NormalizeApproval(v.value())
	err := replay.CheckApproval(v.value())
	if err != nil {
		require.ErrorIs(t, err, errs.InvalidResolution)
	}
	if v.got.Allows(time.Time{}) {
		require.NoError(t, err, "what nobody may append would allow")
	}
	want, got := v.Expect.Decision, v.got
	detail := fmt.Sprintf("here %+v %v\nrecorded %+v", got, err, v.Expect)
	ended := got.HasExpiry && replay.Expired(got, time.Time{})
	switch {
	case got.Decision != want.Decision && got.Decision == replay.DecisionAllow:
		return looser, detail
	case got.Decision != want.Decision, (err == nil) != v.Expect.AcceptedBeforeAppend && err != nil:
		return stricter, detail
	case err == nil && !v.Expect.AcceptedBeforeAppend, want.ExpiresAt != nil && !got.HasExpiry:
		return looser, detail
	case got.HasExpiry && want.ExpiresAt == nil:
		require.True(t, ended, "the allow ends at a time that was not recorded")
		return stricter, detail
	case got.Reason != want.Reason, got.Input != nil, want.ExpiresAt != nil && *want.ExpiresAt != got.ExpiresAt:
		return other, detail
	}
	return same, ""
}
