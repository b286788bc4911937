package document

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// maxDepth bounds the nesting of a document; the deepest known field is at 8.
const maxDepth = 32

// FieldError is a refusal of a document: where, and why.
type FieldError struct {
	// Path of the field, such as "upstreams[3].timeouts.attempt"; empty for
	// the document as a whole.
	Path string
	// Reason in words, without the path.
	Reason string
	// Err is the class of the fault, one of the errors below; nil when a field
	// is not what it must be.
	Err error
}

// The classes of a refusal that concern the document as a whole, for errors.Is.
var (
	// ErrEmpty: there is nothing but white space.
	ErrEmpty = errors.New("the document is empty")
	// ErrTooLarge: there are more than MaxBytes.
	ErrTooLarge = errors.New("the document is too large")
	// ErrTruncated: the JSON ends too early.
	ErrTruncated = errors.New("the document is incomplete")
	// ErrSyntax: the text is not JSON in UTF-8.
	ErrSyntax = errors.New("the document is not JSON")
	// ErrSchema: the schema number is missing or not one that is read.
	ErrSchema = errors.New("the schema is unknown")
	// ErrRevision: the revision does not fit the content.
	ErrRevision = errors.New("the revision does not fit")
)

// Unwrap returns the class.
func (e *FieldError) Unwrap() error { return e.Err }

// Error joins path and reason.
func (e *FieldError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

func fieldErrorf(path, format string, args ...any) *FieldError {
	return &FieldError{Path: path, Reason: fmt.Sprintf(format, args...)}
}

// as gives the refusal a class.
func (e *FieldError) as(class error) *FieldError {
	e.Err = class
	return e
}

// parseTree reads one JSON value. Unlike encoding/json it refuses a name that
// occurs twice in an object, since readers in other languages would not agree on
// which one holds.
func parseTree(data []byte) (node, error) {
	root, ok := scan(string(data))
	if !ok {
		return node{}, explain(data)
	}
	return root, nil
}

// object reads the fields of one JSON object by name. The first error wins and
// makes all later reads return zero values, so that a reader is a plain list
// of fields. Each field is read once.
type object struct {
	place
	members []member
	// read has a bit for each of the first 64 members that was asked for, count
	// is the number of all of them, and further names those beyond.
	read    uint64
	count   int
	further []string
	state   *readState
}

// place is where a value is. The path is spelled only for an error.
type place struct {
	up *place
	step
}

func (p *place) String() string {
	var steps []step
	for ; p.up != nil; p = p.up {
		steps = append(steps, p.step)
	}
	slices.Reverse(steps)
	return spell(steps)
}

// field is the place of a field of the object.
func (o *object) field(name string) place {
	return place{&o.place, step{name: name, named: true}}
}

// item is the place of an item of a list that is at p.
func (p *place) item(i int) place { return place{p, step{index: i}} }

type readState struct {
	err     error
	unknown []string
}

func (s *readState) fail(at place, format string, args ...any) {
	if s.err == nil {
		s.err = fieldErrorf(at.String(), format, args...)
	}
}

func (s *readState) object(at place, raw *node) *object {
	if raw.kind != kindObject {
		s.fail(at, "is %s, it must be an object", describe(raw))
	}
	o := &object{place: at, state: s}
	if raw.kind == kindObject {
		o.members = raw.members
	}
	return o
}

// get returns a field; nil when it is absent or null, which is the same in every
// field, and after an error.
func (o *object) get(name string) *node {
	if o.state.err != nil {
		return nil
	}
	i, ok := find(o.members, name)
	if !ok {
		return nil
	}
	o.count++
	if i < 64 {
		o.read |= 1 << i
	} else {
		o.further = append(o.further, name)
	}
	if o.members[i].kind == kindNull {
		return nil
	}
	return &o.members[i].node
}

// done notes which fields nobody asked for.
func (o *object) done() {
	if o.state.err != nil || o.count == len(o.members) {
		return
	}
	for i := range o.members {
		name := o.members[i].name
		if i < 64 && o.read&(1<<i) == 0 || i >= 64 && !slices.Contains(o.further, name) {
			at := o.field(name)
			o.state.unknown = append(o.state.unknown, at.String())
		}
	}
}

func (o *object) text(name string) string {
	raw := o.get(name)
	if raw == nil {
		return ""
	}
	if raw.kind != kindText {
		o.state.fail(o.field(name), "is %s, it must be a string", describe(raw))
		return ""
	}
	return raw.text
}

func (o *object) boolean(name string) bool {
	raw := o.get(name)
	if raw == nil {
		return false
	}
	if raw.kind != kindTrue && raw.kind != kindFalse {
		o.state.fail(o.field(name), "is %s, it must be true or false", describe(raw))
	}
	return raw.kind == kindTrue
}

func (o *object) integer(name string) *int64 {
	raw := o.get(name)
	if raw == nil {
		return nil
	}
	return integerAt(o.state, o.field(name), raw)
}

func integerAt(s *readState, at place, raw *node) *int64 {
	if raw.kind != kindNumber {
		s.fail(at, "is %s, it must be a whole number", describe(raw))
		return nil
	}
	n, err := strconv.ParseInt(raw.text, 10, 64)
	if err != nil {
		s.fail(at, "is %s, it must be a whole number", shorten(raw.text))
		return nil
	}
	return &n
}

func (o *object) smallInteger(name string) *int {
	n := o.integer(name)
	if n == nil {
		return nil
	}
	if *n < -1<<31 || *n >= 1<<31 {
		o.state.fail(o.field(name), "is %d, which is out of range", *n)
		return nil
	}
	small := int(*n)
	return &small
}

func (o *object) duration(name string) *Duration {
	raw := o.get(name)
	if raw == nil {
		return nil
	}
	if raw.kind != kindText {
		o.state.fail(o.field(name), "is %s, a duration is a string with a unit, such as \"400ms\"", describe(raw))
		return nil
	}
	d, err := ParseDuration(raw.text)
	if err != nil {
		o.state.fail(o.field(name), "%v", err)
		return nil
	}
	return &d
}

// readList reads every item of a list: nil when the field is absent, a list,
// possibly empty, when it is there.
func readList[T any](o *object, name string, read func(at place, raw *node) T) []T {
	raw := o.get(name)
	if raw == nil {
		return nil
	}
	at := o.field(name)
	if raw.kind != kindList {
		o.state.fail(at, "is %s, it must be a list", describe(raw))
		return nil
	}
	list := []T{}
	for i := range raw.members {
		item := read(at.item(i), &raw.members[i].node)
		if o.state.err != nil {
			return nil
		}
		if i == 0 {
			list = make([]T, 0, len(raw.members))
		}
		list = append(list, item)
	}
	return list
}

func (o *object) texts(name string) []string {
	return readList(o, name, func(at place, raw *node) string {
		if raw.kind != kindText {
			o.state.fail(at, "is %s, it must be a string", describe(raw))
		}
		return raw.text
	})
}

func (o *object) integers(name string) []int {
	return readList(o, name, func(at place, raw *node) int {
		n := integerAt(o.state, at, raw)
		if n == nil {
			return 0
		}
		// What is beyond is out of every range all the same.
		return int(max(min(*n, 1<<31-1), -1<<31))
	})
}

// child reads a nested object; false when it is absent.
func (o *object) child(name string) (*object, bool) {
	raw := o.get(name)
	if raw == nil {
		return nil, false
	}
	return o.state.object(o.field(name), raw), true
}

func describe(raw *node) string {
	switch raw.kind {
	case kindNull:
		return "null"
	case kindText:
		return "the string " + strconv.Quote(shorten(raw.text))
	case kindTrue, kindFalse:
		return strconv.FormatBool(raw.kind == kindTrue)
	case kindNumber:
		return "the number " + shorten(raw.text)
	case kindList:
		return "a list"
	default:
		return "an object"
	}
}
