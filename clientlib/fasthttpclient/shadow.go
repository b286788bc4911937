package fasthttpclient

import "time"

// beginRead and endRead bracket a wait for the next bytes of the body, for the
// idle gap.
func (a *attempt) beginRead() time.Time { return a.shadow.BeginRead(&a.Scope) }

func (a *attempt) endRead(began time.Time) { a.shadow.EndRead(&a.Scope, began) }
