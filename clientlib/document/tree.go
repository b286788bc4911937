package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
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

// parseTree reads one JSON value into maps, slices, strings, bools and
// json.Number. Unlike encoding/json it refuses a name that occurs twice in an
// object, since readers in other languages would not agree on which one holds.
func parseTree(data []byte) (any, error) {
	t := treeReader{dec: json.NewDecoder(bytes.NewReader(data))}
	t.dec.UseNumber()
	root, err := t.value()
	if err != nil {
		return nil, err
	}
	if _, err := t.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fieldErrorf("", "there is more after the end of the document (byte %d)", t.dec.InputOffset()).as(ErrSyntax)
	}
	if !utf8.Valid(data) {
		return nil, fieldErrorf("", "is not UTF-8").as(ErrSyntax)
	}
	return root, nil
}

// treeReader reads a tree. It keeps the way from the root as steps and spells
// the path only for an error, so that a long path does not cost anything for
// each of its items.
type treeReader struct {
	dec   *json.Decoder
	steps []step
}

// step is a name, or an index when named is false.
type step struct {
	name  string
	index int
	named bool
}

func (t *treeReader) path() string {
	path := ""
	for _, s := range t.steps {
		if s.named {
			path = joinPath(path, s.name)
		} else {
			path += "[" + strconv.Itoa(s.index) + "]"
		}
	}
	return path
}

func (t *treeReader) value() (any, error) {
	if len(t.steps) > maxDepth {
		return nil, fieldErrorf(t.path(), "is nested deeper than %d levels", maxDepth)
	}
	token, err := t.dec.Token()
	if err != nil {
		return nil, t.syntaxError(err)
	}
	switch token {
	case json.Delim('{'):
		return t.object()
	case json.Delim('['):
		return t.list()
	default:
		return token, nil
	}
}

func (t *treeReader) object() (any, error) {
	object := map[string]any{}
	for t.dec.More() {
		token, err := t.dec.Token()
		if err != nil {
			return nil, t.syntaxError(err)
		}
		name, _ := token.(string)
		t.steps = append(t.steps, step{name: name, named: true})
		if _, twice := object[name]; twice {
			return nil, fieldErrorf(t.path(), "is there twice")
		}
		if object[name], err = t.value(); err != nil {
			return nil, err
		}
		t.steps = t.steps[:len(t.steps)-1]
	}
	if _, err := t.dec.Token(); err != nil {
		return nil, t.syntaxError(err)
	}
	return object, nil
}

func (t *treeReader) list() (any, error) {
	list := []any{}
	for t.dec.More() {
		t.steps = append(t.steps, step{index: len(list)})
		item, err := t.value()
		if err != nil {
			return nil, err
		}
		list = append(list, item)
		t.steps = t.steps[:len(t.steps)-1]
	}
	if _, err := t.dec.Token(); err != nil {
		return nil, t.syntaxError(err)
	}
	return list, nil
}

func (t *treeReader) syntaxError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fieldErrorf(t.path(), "the JSON ends too early (byte %d): the file is incomplete", t.dec.InputOffset()).as(ErrTruncated)
	}
	return fieldErrorf(t.path(), "is not JSON (byte %d): %v", t.dec.InputOffset(), err).as(ErrSyntax)
}

// joinPath quotes a name that is not a plain word and bounds its length, since
// it can be anything.
func joinPath(path, name string) string {
	plain := name != "" && len(name) <= 64
	for _, c := range []byte(name) {
		plain = plain && (isNameByte(c) || c >= 'A' && c <= 'Z' || c == '/')
	}
	if !plain {
		return path + "[" + strconv.Quote(shorten(name)) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// object reads the fields of one JSON object by name. The first error wins and
// makes all later reads return zero values, so that a reader is a plain list
// of fields. Each field is read once.
type object struct {
	path   string
	fields map[string]any
	read   []string // names that are there and were read
	state  *readState
}

type readState struct {
	err     error
	unknown []string
}

func (s *readState) fail(path, format string, args ...any) {
	if s.err == nil {
		s.err = fieldErrorf(path, format, args...)
	}
}

func (s *readState) object(path string, raw any) *object {
	fields, ok := raw.(map[string]any)
	if !ok {
		s.fail(path, "is %s, it must be an object", describe(raw))
	}
	return &object{path: path, fields: fields, state: s}
}

func (o *object) get(name string) (any, string, bool) {
	raw, ok := o.fields[name]
	if !ok || o.state.err != nil {
		return nil, "", false
	}
	o.read = append(o.read, name)
	// JSON null is the same as absent, in every field.
	return raw, joinPath(o.path, name), raw != nil
}

// done notes which fields nobody asked for.
func (o *object) done() {
	if o.state.err != nil || len(o.read) == len(o.fields) {
		return
	}
	for name := range o.fields {
		if !slices.Contains(o.read, name) {
			o.state.unknown = append(o.state.unknown, joinPath(o.path, name))
		}
	}
}

func (o *object) text(name string) string {
	raw, path, ok := o.get(name)
	if !ok {
		return ""
	}
	s, ok := raw.(string)
	if !ok {
		o.state.fail(path, "is %s, it must be a string", describe(raw))
	}
	return s
}

func (o *object) boolean(name string) bool {
	raw, path, ok := o.get(name)
	if !ok {
		return false
	}
	b, ok := raw.(bool)
	if !ok {
		o.state.fail(path, "is %s, it must be true or false", describe(raw))
	}
	return b
}

func (o *object) integer(name string) *int64 {
	raw, path, ok := o.get(name)
	if !ok {
		return nil
	}
	return integerAt(o.state, path, raw)
}

func integerAt(s *readState, path string, raw any) *int64 {
	number, ok := raw.(json.Number)
	if !ok {
		s.fail(path, "is %s, it must be a whole number", describe(raw))
		return nil
	}
	n, err := strconv.ParseInt(number.String(), 10, 64)
	if err != nil {
		s.fail(path, "is %s, it must be a whole number", shorten(number.String()))
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
		o.state.fail(joinPath(o.path, name), "is %d, which is out of range", *n)
		return nil
	}
	small := int(*n)
	return &small
}

func (o *object) duration(name string) *Duration {
	raw, path, ok := o.get(name)
	if !ok {
		return nil
	}
	s, ok := raw.(string)
	if !ok {
		o.state.fail(path, "is %s, a duration is a string with a unit, such as \"400ms\"", describe(raw))
		return nil
	}
	d, err := ParseDuration(s)
	if err != nil {
		o.state.fail(path, "%v", err)
		return nil
	}
	return &d
}

// readList reads every item of a list: nil when the field is absent, a list,
// possibly empty, when it is there.
func readList[T any](o *object, name string, read func(path string, raw any) T) []T {
	raw, path, ok := o.get(name)
	if !ok {
		return nil
	}
	items, ok := raw.([]any)
	if !ok {
		o.state.fail(path, "is %s, it must be a list", describe(raw))
		return nil
	}
	list := make([]T, 0, len(items))
	for i, item := range items {
		if o.state.err != nil {
			return nil
		}
		list = append(list, read(path+"["+strconv.Itoa(i)+"]", item))
	}
	return list
}

func (o *object) texts(name string) []string {
	return readList(o, name, func(path string, raw any) string {
		s, ok := raw.(string)
		if !ok {
			o.state.fail(path, "is %s, it must be a string", describe(raw))
		}
		return s
	})
}

func (o *object) integers(name string) []int {
	return readList(o, name, func(path string, raw any) int {
		n := integerAt(o.state, path, raw)
		if n == nil {
			return 0
		}
		// What is beyond is out of every range all the same.
		return int(max(min(*n, 1<<31-1), -1<<31))
	})
}

// child reads a nested object; false when it is absent.
func (o *object) child(name string) (*object, bool) {
	raw, path, ok := o.get(name)
	if !ok {
		return nil, false
	}
	return o.state.object(path, raw), true
}

func describe(raw any) string {
	switch v := raw.(type) {
	case nil:
		return "null"
	case string:
		return "the string " + strconv.Quote(shorten(v))
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "the number " + shorten(v.String())
	case []any:
		return "a list"
	default:
		return "an object"
	}
}

func sortedUnknown(unknown []string) []string {
	slices.Sort(unknown)
	return unknown
}
