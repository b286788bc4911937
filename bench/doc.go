// Package bench measures the call path beside bare clients and beside other
// libraries of the field.
package bench
