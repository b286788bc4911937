package deadline

import (
	"context"
	"net/http"
	"time"
)

// Stamp tells the peer of a request that is made without an adapter what is left
// of its time, in each of the headers; none means X-Deadline-Ms. It takes the
// sooner of the ambient budget and the deadline of ctx, and keeps the reserve
// back from it, for the caller's own reply. What the fields said before is
// replaced, in all spellings, and removed where nothing limits ctx, so that what
// an earlier service was told is never passed on. header must not be nil.
//
// It returns false when nothing is left to tell, and then has removed the fields:
// the request had better not be sent. Stamp each attempt anew.
func Stamp(ctx context.Context, header http.Header, reserve time.Duration, headers ...Header) bool {
	now := time.Now() //nolint:forbidigo // where a point in time becomes what is left
	if len(headers) == 0 {
		headers = []Header{Milliseconds("")}
	}
	end, limited := EndAt(ctx, now)
	if at, ok := ctx.Deadline(); ok && (!limited || at.Before(end)) {
		end, limited = at, true
	}
	left := end.Sub(now) - max(0, reserve)
	for _, h := range headers {
		if h.name == "" {
			continue
		}
		Remove(header, h.name)
		if limited && left >= time.Millisecond {
			header[h.name] = []string{h.Format(left)}
		}
	}
	return !limited || left >= time.Millisecond
}
