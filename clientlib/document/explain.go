package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"
)

// explain says what is wrong with a text that [scan] does not take, in the words
// of encoding/json. It reads the text token by token, which is slow, and takes
// memory in proportion to it.
func explain(data []byte) error {
	e := explainer{dec: json.NewDecoder(bytes.NewReader(data))}
	e.dec.UseNumber()
	if err := e.value(); err != nil {
		return err
	}
	if _, err := e.dec.Token(); !errors.Is(err, io.EOF) {
		return fieldErrorf("", "there is more after the end of the document (byte %d)", e.dec.InputOffset()).as(ErrSyntax)
	}
	if !utf8.Valid(data) {
		return fieldErrorf("", "is not UTF-8").as(ErrSyntax)
	}
	return fieldErrorf("", "is not JSON").as(ErrSyntax)
}

// explainer reads a text. It keeps the way from the root as steps and spells the
// path only for an error, so that a long path does not cost anything for each of
// its items.
type explainer struct {
	dec   *json.Decoder
	steps []step
}

// step is a name, or an index when named is false.
type step struct {
	name  string
	index int
	named bool
}

func (e *explainer) path() string { return spell(e.steps) }

// spell writes a path.
func spell(steps []step) string {
	path := ""
	for _, s := range steps {
		if s.named {
			path = joinPath(path, s.name)
		} else {
			path += "[" + strconv.Itoa(s.index) + "]"
		}
	}
	return path
}

func (e *explainer) value() error {
	if len(e.steps) > maxDepth {
		return fieldErrorf(e.path(), "is nested deeper than %d levels", maxDepth)
	}
	token, err := e.dec.Token()
	if err != nil {
		return e.syntaxError(err)
	}
	switch token {
	case json.Delim('{'):
		return e.object()
	case json.Delim('['):
		return e.list()
	default:
		return nil
	}
}

func (e *explainer) object() error {
	names := map[string]bool{}
	for e.dec.More() {
		token, err := e.dec.Token()
		if err != nil {
			return e.syntaxError(err)
		}
		name, _ := token.(string)
		e.steps = append(e.steps, step{name: name, named: true})
		if names[name] {
			return fieldErrorf(e.path(), "is there twice")
		}
		names[name] = true
		if err := e.value(); err != nil {
			return err
		}
		e.steps = e.steps[:len(e.steps)-1]
	}
	return e.end()
}

func (e *explainer) list() error {
	for i := 0; e.dec.More(); i++ {
		e.steps = append(e.steps, step{index: i})
		if err := e.value(); err != nil {
			return err
		}
		e.steps = e.steps[:len(e.steps)-1]
	}
	return e.end()
}

func (e *explainer) end() error {
	if _, err := e.dec.Token(); err != nil {
		return e.syntaxError(err)
	}
	return nil
}

func (e *explainer) syntaxError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fieldErrorf(e.path(), "the JSON ends too early (byte %d): the file is incomplete", e.dec.InputOffset()).as(ErrTruncated)
	}
	return fieldErrorf(e.path(), "is not JSON (byte %d): %v", e.dec.InputOffset(), err).as(ErrSyntax)
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
