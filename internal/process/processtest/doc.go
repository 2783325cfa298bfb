// Package processtest ends what the tests of a package leave running. A test
// that starts programs may itself be killed, or panic when its time is over, and
// then nothing in it can end them. So the test binary runs as the child of
// another process of itself, which stays behind it to see what is left:
//
//	go test        the guard                  the tests            programs
//	 |-- exec -----> | adopts orphans
//	                 |-- exec, guarded -------->| m.Run ------------>|
//	                 |<------------- its status |                    |
//	                 | names and kills whoever is left below it, and fails
package processtest
