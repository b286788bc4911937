// Package source brings documents to a client: from a mounted ConfigMap or
// another directory ([Dir]), from one file ([File]), from the program itself
// ([Static]), or from several of them in order of preference ([Prefer]). The
// module kubesource adds the Kubernetes API.
//
// A source owns the rule that a bad document never displaces a good one. It
// reports a whole state at each change, an [Update]: the newest valid document
// that it ever read, and what is wrong now, if anything is. It neither logs nor
// decides what a client does without a document.
package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync/atomic"
	"time"

	"github.com/timeout-operator/timeout-operator/clientlib/document"
)

// Source delivers documents.
//
// Run looks for a document, calls sink with what it found, and from then on
// again at each change of state, until ctx ends; then it returns nil, and every
// goroutine and file descriptor it had is gone. The first call comes once the
// source has looked, also when there is no document: at once, or after a few
// seconds where others have to be asked. Sink is called from one goroutine and
// should not block. An error means that the source was set up wrongly and
// delivers nothing.
//
// A Source may be run several times, also at once; the runs share nothing but
// the process's file watcher.
type Source interface {
	Run(ctx context.Context, sink func(Update)) error
}

// Update is the whole state of a source after a change.
type Update struct {
	// Document is the newest valid document; it stays while Err says that
	// what is there now is unusable. Nil until there was a valid one. A
	// tombstone is a document too: it says that there is no policy, on purpose.
	Document *document.Document
	// Raw is the text that Document was read from, nil for Static. Read only.
	Raw []byte
	// Err says what is wrong now; nil when Document is what the source has.
	// From Dir, File and kubesource it is a *[Error].
	Err error
	// Reason sums Err up. It is empty when all is well, and can be set with a
	// nil Err: then it is a warning, see the constants.
	Reason Reason
	// Detail says in words what a warning is about; empty where Reason says it.
	Detail string
	// Delivery says how changes reach the source at present.
	Delivery Delivery
	// Origin is where Document came from, such as the path of the file; empty
	// without a document.
	Origin string
	// StandsIn says that Document is of a source that stands in for a preferred
	// one, see [Prefer]: that one is lost, or has not spoken yet.
	StandsIn bool
	// Check says when the source last made sure that this is the newest state
	// there is. It goes on being renewed without another Update, and is no part
	// of what [Update.Same] compares. Nil for Static.
	Check *Check
}

// Message says in one sentence what Reason is about; empty when all is well.
func (u Update) Message() string {
	switch {
	case u.Err != nil:
		return u.Err.Error()
	case u.Detail != "":
		return u.Detail
	default:
		return u.Reason.warning()
	}
}

// Same reports whether two updates tell the same. The same refusal of other
// content is news.
func (u Update) Same(v Update) bool {
	return u.Document == v.Document && u.Reason == v.Reason && u.Detail == v.Detail &&
		u.Delivery == v.Delivery && u.Origin == v.Origin && u.StandsIn == v.StandsIn && sameFault(u.Err, v.Err)
}

func sameFault(a, b error) bool {
	var x, y *Error
	if !errors.As(a, &x) || !errors.As(b, &y) {
		return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
	}
	return x.content == y.content && a.Error() == b.Error()
}

// Check is the time at which a source last made sure that what it has is the
// newest there is. The zero value says never. It is safe for concurrent use.
type Check struct{ last atomic.Pointer[time.Time] }

// Mark says that it was made sure at a time of the source's clock.
func (c *Check) Mark(at time.Time) { c.last.Store(&at) }

// Last returns the latest mark; zero for never, and for a nil Check.
func (c *Check) Last() time.Time {
	if c == nil {
		return time.Time{}
	}
	if at := c.last.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Reason sums up what a source's state means for its client, in the spelling of
// reports.
type Reason string

// The reasons. The first ones come with an error.
const (
	// ReasonNone: all is well.
	ReasonNone Reason = ""
	// ReasonNoDocument: there is no document and never was one.
	ReasonNoDocument Reason = "NoDocument"
	// ReasonInvalidInitial: the document that is there cannot be used, and
	// there was no valid one before.
	ReasonInvalidInitial Reason = "InvalidInitial"
	// ReasonInvalidUpdate: the document that is there cannot be used; the
	// last good one stays in force.
	ReasonInvalidUpdate Reason = "InvalidUpdate"
	// ReasonSourceGone: the document was there and is not any more; the last
	// good one stays in force.
	ReasonSourceGone Reason = "SourceGone"
	// ReasonUnreadable: the operating system refuses to read the document;
	// the last good one, if there was any, stays in force.
	ReasonUnreadable Reason = "Unreadable"
	// ReasonUnreachable: who has the document does not answer; the last good
	// one, if there was any, stays in force. From Prefer it may be a warning:
	// another source stands in.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonForbidden: who has the document refuses it to this process. The
	// rest is as with ReasonUnreachable.
	ReasonForbidden Reason = "Forbidden"
	// ReasonSetUp: a source of several is set up wrongly and delivers nothing, or a
	// source ended that had to go on. The rest is as with ReasonUnreachable.
	ReasonSetUp Reason = "SetUp"
	// ReasonCached: no source has a document, or only one that stands in for
	// another and has an older one, so the last good one of an earlier process is
	// in force, see clientlib.WithCache.
	ReasonCached Reason = "Cached"

	// ReasonSubPathMount is a warning: the file is mounted with subPath, which
	// Kubernetes never updates.
	ReasonSubPathMount Reason = "SubPathMount"
	// ReasonWatchUnavailable is a warning: the directory cannot be watched (the
	// inotify limit is reached, or the filesystem has no events), so changes
	// are found by looking every few seconds.
	ReasonWatchUnavailable Reason = "WatchUnavailable"
)

func (r Reason) warning() string {
	switch r {
	case ReasonSubPathMount:
		return "the document is mounted with subPath, which Kubernetes never updates: mount the ConfigMap as a directory"
	case ReasonWatchUnavailable:
		return "the directory cannot be watched, so changes are found by looking every few seconds: raise fs.inotify.max_user_instances or max_user_watches"
	default:
		return ""
	}
}

// Delivery says how changes reach a source, in the spelling of reports.
type Delivery string

// The deliveries.
const (
	// DeliveryMount: a directory is watched, and looked at now and then.
	DeliveryMount Delivery = "Mount"
	// DeliveryPoll: a directory is looked at every few seconds only.
	DeliveryPoll Delivery = "Poll"
	// DeliveryWatch: the Kubernetes API is watched.
	DeliveryWatch Delivery = "Watch"
	// DeliveryStatic: changes never arrive.
	DeliveryStatic Delivery = "Static"
)

// Fault says what is wrong with a document or with its place, more finely than
// a [Reason].
type Fault string

// The faults.
const (
	// FaultMissing: the directory or the file is not there, or the directory
	// is empty.
	FaultMissing Fault = "Missing"
	// FaultDanglingLink: "..data" or the file is a link to nowhere.
	FaultDanglingLink Fault = "DanglingLink"
	// FaultSymlinkLoop: links lead to each other.
	FaultSymlinkLoop Fault = "SymlinkLoop"
	// FaultPermission: the process may not read the directory or the file.
	FaultPermission Fault = "PermissionDenied"
	// FaultNotRegular: the file is a directory, a pipe or a device.
	FaultNotRegular Fault = "NotRegular"
	// FaultIO: reading failed for another reason, such as too many open files.
	FaultIO Fault = "ReadFailed"
	// FaultUnreachable: who has the document does not answer, or not as it should.
	FaultUnreachable Fault = "Unreachable"
	// FaultForbidden: who has the document refuses it to this process.
	FaultForbidden Fault = "Forbidden"
	// FaultEmpty: the file has no content.
	FaultEmpty Fault = "Empty"
	// FaultTooLarge: the file is larger than document.MaxBytes.
	FaultTooLarge Fault = "TooLarge"
	// FaultTruncated: the JSON ends too early.
	FaultTruncated Fault = "Truncated"
	// FaultSyntax: the file is not JSON.
	FaultSyntax Fault = "NotJSON"
	// FaultSchema: the schema number is missing or unknown to this version.
	FaultSchema Fault = "UnknownSchema"
	// FaultDigest: the revision does not fit the content.
	FaultDigest Fault = "WrongDigest"
	// FaultInvalid: the document is JSON, but a field is not what it must be.
	FaultInvalid Fault = "Invalid"
)

// Error is a fault of a document or of its place.
type Error struct {
	// Path of the file as configured, such as "/etc/timeouts/client/policy.json",
	// or another place, such as "ConfigMap shop/timeouts".
	Path string
	// Fault is what is wrong.
	Fault Fault
	// Err is the cause; a *document.FieldError when the content is at fault.
	Err error

	// content is the digest of the content at fault, zero when it is not the
	// content.
	content [sha256.Size]byte
}

// Error names the place and the fault.
func (e *Error) Error() string {
	return e.Path + ": " + string(e.Fault) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Static returns a source that has the document from the start and never
// changes it. A nil document is like an empty directory.
func Static(doc *document.Document) Source { return static{doc} }

type static struct{ doc *document.Document }

var errNoStaticDocument = errors.New("source.Static was given no document")

func (s static) Run(ctx context.Context, sink func(Update)) error {
	u := Update{Document: s.doc, Delivery: DeliveryStatic, Origin: "static"}
	if s.doc == nil {
		u.Err, u.Reason, u.Origin = errNoStaticDocument, ReasonNoDocument, ""
	}
	sink(u)
	<-ctx.Done()
	return nil
}
