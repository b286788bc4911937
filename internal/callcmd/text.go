package callcmd

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/timeout-operator/timeout-operator/clientlib/failure"
)

const rowFormat = "%-8s %-9s %-9s %-16s %-11s %-9s %s\n"

// WriteHead writes the head of the table of attempts.
func WriteHead(w io.Writer) {
	fmt.Fprintf(w, rowFormat, "ATTEMPT", "STARTED", "TOOK", "RESULT", "STATUS", "LEFT", "THEN")
}

// WriteAttempt writes the row of an attempt.
func WriteAttempt(w io.Writer, a Attempt) {
	result, left := orDash(a.Kind), "-"
	if a.OK {
		result = "ok"
	}
	if a.Left != nil {
		left = a.Left.String()
	}
	fmt.Fprintf(w, rowFormat, strconv.Itoa(a.Number), a.Started, a.Took, result, statusText(a.Status, a.Code), left, a.then())
}

// then says what followed an attempt, and why.
func (a Attempt) then() string {
	switch {
	case a.Retried && a.Wait > 0:
		return "retry after " + a.Wait.String()
	case a.Retried:
		return "retry at once"
	case a.OK && a.Status >= 300 && a.Status < 400:
		return "redirect"
	case a.OK:
		return "done"
	}
	switch a.Skip {
	case failure.SkipAttempts.String():
		return "no retry: attempts (maxAttempts is used up)"
	case failure.SkipMethod.String():
		return "no retry: method (" + a.Method + " is not repeatable here, and nobody vouched for it)"
	case failure.SkipNonReplayable.String():
		return "no retry: non_replayable (the request body cannot be sent again)"
	case failure.SkipDeadline.String():
		return "no retry: deadline (it would begin after the end of the call)"
	case failure.SkipBudget.String():
		return "no retry: budget (the retry budget is used up)"
	}
	switch a.Kind {
	case failure.TotalTimeout.String(), failure.Cancelled.String():
		return "no retry: the call is over"
	default:
		return "no retry: the policy asks for none"
	}
}

// WriteResult writes what comes after the attempts: the body and the result.
func (r *Result) WriteResult(w io.Writer) {
	if r.Body != nil {
		end := "complete"
		if !r.Body.OK {
			end = "cut: " + r.Body.Kind
		}
		size := counted(r.Body.Bytes, "byte")
		if r.Body.Messages > 0 {
			size = counted(int64(r.Body.Messages), "message") + " of " + size
		}
		fmt.Fprintf(w, "body     %s in %s, %s\n", size, r.Body.Took, end)
	}
	if len(r.WouldCut) > 0 {
		fmt.Fprintf(w, "shadow   would have cut or repeated it: %s\n", strings.Join(r.WouldCut, ", "))
	}
	where := "no upstream of the document names the host"
	if r.Upstream != "" {
		where = "upstream " + r.Upstream
		if r.Route != "" {
			where += ", route " + r.Route
		}
	}
	switch {
	case r.OK:
		fmt.Fprintf(w, "result   ok, %s, in %s (%s)\n", statusText(r.Status, r.Code), r.Took, where)
	case r.Error == "":
		fmt.Fprintf(w, "result   failed, %s %s, in %s (%s)\n", r.Kind, statusText(r.Status, r.Code), r.Took, where)
	default:
		fmt.Fprintf(w, "result   failed, %s, in %s (%s)\n         %s\n", r.Kind, r.Took, where, r.Error)
	}
}

func counted(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.FormatInt(n, 10) + " " + what
}

func statusText(status int, code string) string {
	if status == 0 {
		return orDash(code)
	}
	return strconv.Itoa(status)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
