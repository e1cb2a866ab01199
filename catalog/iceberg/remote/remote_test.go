package remote_test

import (
	"testing"

	"icehose/catalog/iceberg/remote"
)

// What works is tested in catalog/iceberg, on servers of its own.
func TestRefuses(t *testing.T) {
	for want, o := range map[string]remote.Options{
		`open catalog: want glue, rest or sqlite, got ""`:                                                           {},
		`open catalog: want glue, rest or sqlite, got "hive"`:                                                       {Kind: "hive", Warehouse: "s3://x/y"},
		"open glue catalog: want a warehouse URI such as s3://my-lake/warehouse: Glue does not place tables itself": {Kind: remote.Glue, Warehouse: "x"},
		"open rest catalog: want the address of the catalog":                                                        {Kind: remote.REST, Warehouse: "s3://x/y"},
	} {
		if _, err := remote.Open(t.Context(), o); err == nil || err.Error() != want {
			t.Errorf("%+v\ngot  %v\nwant %s", o, err, want)
		}
	}
}
