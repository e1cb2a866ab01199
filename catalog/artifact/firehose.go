package artifact

// A destinationTable is an element of DestinationTableConfigurationList, which
// has the same form in the API and in CloudFormation.
type destinationTable struct {
	Database   string   `json:"DestinationDatabaseName"`
	Table      string   `json:"DestinationTableName"`
	UniqueKeys []string `json:"UniqueKeys,omitempty"`
}

// firehose makes the delivery stream's list of tables. Only a mirror has unique
// keys: a changelog and a table without a key get nothing but inserts.
func (g *generator) firehose() error {
	list := make([]destinationTable, 0, len(g.pipeline.Tables))
	for _, t := range g.pipeline.Tables {
		list = append(list, destinationTable{Database: t.Database(), Table: t.Name(), UniqueKeys: t.UniqueKeys()})
	}
	return g.json("firehose/destination-tables.json", list)
}
