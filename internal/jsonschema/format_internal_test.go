package jsonschema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormats(t *testing.T) {
	rows := []struct {
		format  string
		yes, no []string
	}{
		{"date", []string{"2024-02-29", "0000-01-01", "9999-12-31"}, []string{"", "2023-02-29", "2024-1-1", "2024-01-32", "2024-01-01 ", "٢٠٢٤-01-01", "20240-01-0"}},
		{"time", []string{"12:00:00Z", "12:00:00z", "00:00:00.000000001+00:00", "23:59:60Z", "22:59:60-01:00", "00:29:60+00:30"}, []string{"12:00:00", "12:00Z", "24:00:00Z", "12:60:00Z", "12:00:61Z", "12:00:60Z", "12:00:00.Z", "12:00:00+0100", "12:00:00+01", "12:00:00+24:00", "12:00:00+01:60", "1a:00:00Z", ""}},
		{"date-time", []string{"2024-01-01T00:00:00Z", "2024-01-01t00:00:00.5-23:59"}, []string{"2024-01-01 00:00:00Z", "2024-01-01T00:00:00", "2024-02-30T00:00:00Z", "2024-01-01T", ""}},
		{"duration", []string{"P1D", "PT1H", "P1Y2M3DT4H5M6S", "P1W", "P1M", "PT5S", "P1DT1S"}, []string{"", "P", "PT", "P1", "1D", "P1S", "P1W1D", "P1DT", "PT1.5S", "p1d", "-P1D", "P1Y1D", "PT1H1S", "P1D1Y", "PT1H1H", "P1DT1HT1M", "PW"}},
		{"email", []string{"a@b", "a+b@c-d.e", `"a b"@c.d`, `"a\"b"@c.d`, "a@[1.2.3.4]", "a@[IPv6:::1]"}, []string{"", "a", "@b", "a@", "a@b@c", ".a@b", "a.@b", "a..b@c", "a b@c", "a@-b", "a@b.", "a@[1.2.3]", "a@[1.2.3.4", "a@[IPv6:1.2.3.4]", `"a"b"@c`, `"a\"@c`, "é@b", strings.Repeat("x", 65) + "@b"}},
		{"hostname", []string{"a", "A.b-c.1", "a.b.", "1.2.3.4", strings.Repeat("x", 63)}, []string{"", ".", "a..b", "-a", "a-", "a_b", "é", strings.Repeat("x", 64), strings.Repeat("x.", 127) + "xx"}},
		{"ipv4", []string{"0.0.0.0", "255.255.255.255"}, []string{"", "256.1.1.1", "1.2.3", "1.2.3.4.5", "010.1.1.1", "1.2.3.04", "0x1.2.3.4", "::1", "1.2.3.-4"}},
		{"ipv6", []string{"::", "::1", "1::2", "ABCD::", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8"}, []string{"", "1:2:3:4:5:6:7", "1::2::3", ":1", "fe80::1%eth0", "::1.2.3.256", "12345::", "1.2.3.4"}},
		{"uri", []string{"https://a.test/x?y#z", "urn:x:y", "mailto:a@b.c", "http://[::1]:80/", "http://u:p@h:1/%20", "tel:5", "a:", "http://[v1.a:b]/", "file:///etc"}, []string{"", "/a", "//a.test", "http://a b", "https://é.test", "a%20b:", "1a:b", "http://[::1", "http://[x]/", "http://h:1x/", "x:%zz", "x:a#b#c", `x:\`, "x:{}", "http://[::1]x/"}},
		{"uri-reference", []string{"", "a", "/a/b", "#x", "?q", "//h", "./a:b", "http://a"}, []string{"a b", `\`, "%zz", "1:b", "a^b", "é"}},
		{"uri-template", []string{"", "/a/{b}", "{+x}", "{?x,y*}", "{x:3}", "é{a.b}", "%20"}, []string{"{", "}", "{}", "/a/{b", "a b", "{a b}", "{x:0}", "{x:10000}", "{x:}", "{x:3*}", "{a..b}", "{.}", "{,}", "%2", "<a>", "a}b{c"}},
		{"url", []string{"https://a.test", "ftp://a/x", "http://10.0.0.1"}, []string{"", "a.test", "http:", "mailto:a@b", "http:///x", "https://a b"}},
		{"uuid", []string{"123e4567-e89b-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000000", "ABCDEF00-0000-0000-0000-000000000000"}, []string{"", "x", "{123e4567-e89b-12d3-a456-426614174000}", "urn:uuid:123e4567-e89b-12d3-a456-426614174000", "123e4567ae89b-12d3-a456-426614174000", "123g4567-e89b-12d3-a456-426614174000"}},
		{"regex", []string{"", "^a$", "(?!x)", `\p{L}`, `(?<n>a)\k<n>`}, []string{`\Z`, "(", `\-`, "a**"}},
		{"json-pointer", []string{"", "/", "/a~0~1/b", "//"}, []string{"a", "#/a", "/a~", "/a~2"}},
		{"json-pointer-uri-fragment", []string{"#", "#/a%20b", "#/a~1"}, []string{"", "/a", "#a", "#/a b", "#/%zz", "#/%ff", "#/a~2"}},
		{"relative-json-pointer", []string{"0", "1/a", "120#", "0/"}, []string{"", "01/a", "-1", "/a", "1#a", "1a"}},
	}
	seen := map[string]bool{}
	for _, row := range rows {
		t.Run(row.format, func(t *testing.T) {
			check := formats[row.format]
			require.NotNil(t, check)
			seen[row.format] = true
			for _, s := range row.yes {
				require.NoError(t, check(s), "%q", s)
			}
			for _, s := range row.no {
				require.Error(t, check(s), "%q", s)
			}
		})
	}
	for name := range formats {
		require.True(t, seen[name], "%s has no row", name)
	}
}

// Texts that are cut anywhere must not make a format slip.
func FuzzFormats(f *testing.F) {
	for _, s := range []string{"2024-02-29T23:59:60+00:30", "P1Y2M3DT4H5M6S", `"a b"@[IPv6:::1]`, "http://u:p@[::1]:80/%20?#", "/a/{+b:3,c*}", "urn:uuid:x", "#/a%20~1", "10/a", `(?<n>[\w-])\k<n>`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, check := range formats {
			err := check(s)
			if name == "uri" && err == nil && checkURIReference(s) != nil {
				t.Errorf("%q is a URI and no reference", s)
			}
		}
	})
}
