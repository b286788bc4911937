// Package fasthttpclient enforces the policy in force on the calls of a fasthttp
// client.
package fasthttpclient
