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
		if blind := t.BlindReaders(); len(blind) > 0 {
			g.note(t, "Firehose writes delete files, merge-on-read alone, and %s would read the table wrong or not at all: deliver it with icehose sink, or make it a changelog", join(blind))
		}
		list = append(list, destinationTable{Database: t.Database(), Table: t.Name(), UniqueKeys: t.UniqueKeys()})
	}
	return g.json("firehose/destination-tables.json", list)
}
