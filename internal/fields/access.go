package fields

import "github.com/timeout-operator/timeout-operator/clientlib/document"

// find returns a block of the rules; nil when it is absent and not to be made.
type find[B any] func(r *document.Rules, create bool) *B

func ensure[B any](at **B, create bool) *B {
	if *at == nil && create {
		*at = new(B)
	}
	return *at
}

func timeouts(r *document.Rules, create bool) *document.Timeouts { return ensure(&r.Timeouts, create) }

func retry(r *document.Rules, create bool) *document.Retry { return ensure(&r.Retry, create) }

func deadline(r *document.Rules, create bool) *document.Deadline { return ensure(&r.Deadline, create) }

func breaker(r *document.Rules, create bool) *document.CircuitBreaker {
	return ensure(&r.CircuitBreaker, create)
}

func backoff(r *document.Rules, create bool) *document.Backoff {
	outer := retry(r, create)
	if outer == nil {
		return nil
	}
	return ensure(&outer.Backoff, create)
}

func retryAfter(r *document.Rules, create bool) *document.RetryAfter {
	outer := retry(r, create)
	if outer == nil {
		return nil
	}
	return ensure(&outer.RetryAfter, create)
}

func budget(r *document.Rules, create bool) *document.Budget {
	outer := retry(r, create)
	if outer == nil {
		return nil
	}
	return ensure(&outer.Budget, create)
}

func pointer[B, T any](path, standard string, at func(*B) **T, in find[B]) Field {
	return Field{
		Path:    path,
		Default: standard,
		get: func(r *document.Rules) any {
			b := in(r, false)
			if b == nil || *at(b) == nil {
				return nil
			}
			return *at(b)
		},
		put: func(r *document.Rules, value any) { *at(in(r, true)), _ = value.(*T) },
	}
}

func duration[B any](path, standard string, at func(*B) **document.Duration, in find[B]) Field {
	return pointer(path, standard, at, in)
}

func text[B any, T ~string](path, standard string, at func(*B) *T, in find[B]) Field {
	return Field{
		Path:    path,
		Default: standard,
		get: func(r *document.Rules) any {
			b := in(r, false)
			if b == nil || *at(b) == "" {
				return nil
			}
			return *at(b)
		},
		put: func(r *document.Rules, value any) { *at(in(r, true)), _ = value.(T) },
	}
}

func list[B, T any](path, standard string, at func(*B) *[]T, in find[B]) Field {
	return Field{
		Path:    path,
		Default: standard,
		get: func(r *document.Rules) any {
			b := in(r, false)
			if b == nil || *at(b) == nil {
				return nil
			}
			return *at(b)
		},
		put: func(r *document.Rules, value any) { *at(in(r, true)), _ = value.([]T) },
	}
}

// block is there or not; its value is the empty struct.
func block[B any](path, standard string, in find[B]) Field {
	return Field{
		Path:    path,
		Default: standard,
		Block:   true,
		get: func(r *document.Rules) any {
			if in(r, false) == nil {
				return nil
			}
			return struct{}{}
		},
		put: func(r *document.Rules, _ any) { in(r, true) },
	}
}
