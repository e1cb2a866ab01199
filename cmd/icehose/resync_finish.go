package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"icehose/catalog"
	"icehose/catalog/discover"
	"icehose/cdc"
)

// resyncFinishCmd removes what a finished load did not bring again.
type resyncFinishCmd struct {
	Table    string `arg:"" help:"The source table, as schema.table."`
	Pipeline string `default:"pipeline.yaml" help:"The pipeline file." placeholder:"FILE"`
	Dialect  string `default:"athena" enum:"athena,spark" help:"athena or spark." placeholder:"DIALECT"`
	Swept    bool   `help:"The statement has been run: write finished: true into the pipeline file."`
}

// Help implements kong.HelpProvider.
func (*resyncFinishCmd) Help() string {
	return `Prints the statement that removes the ghosts of a table: rows that were deleted
in the source while nobody saw it, and so are below the floor of the last load
after all of its rows have come. Run it only then. With --swept, once it has
run, the load is marked as finished in the pipeline file.

Exit status: 0 printed or marked, 2 not possible, and nothing written.

Example:
  icehose resync finish sales.orders
  icehose resync finish sales.orders --swept`
}

// Run implements the command.
func (cmd *resyncFinishCmd) Run(env *environment, global *cli) error {
	p, text, t, err := readTable(cmd.Pipeline, cmd.Table)
	if err != nil {
		return err
	}
	if len(t.Loads) == 0 {
		return fmt.Errorf("finish load: %s: table %s has no loads: icehose resync start announces one", cmd.Pipeline, t.Source)
	}
	load := t.Loads[len(t.Loads)-1]
	result := resyncResult{Table: t.Source, Floor: load.Floor.String(), Since: load.Since.UTC().Format(time.RFC3339Nano)}
	if cmd.Swept {
		if text, err = discover.FinishLoad(cmd.Pipeline, text, t.Source); err != nil {
			return fmt.Errorf("finish load: %w", err)
		}
		if err := replaceFile(cmd.Pipeline, text); err != nil {
			return fmt.Errorf("write pipeline file: %w", err)
		}
		result.Steps = []string{"icehose reconcile, to see that the table is equal now"}
		return result.print(env.stdout, global.JSON)
	}
	if result.SQL, err = sweep(p, t, load, cmd.Dialect); err != nil {
		return fmt.Errorf("finish load: %w", err)
	}
	result.Steps = []string{
		"make sure that every row of the load is in the lake: a row that has not come yet is taken for a ghost",
		"run the statement",
		"icehose resync finish " + shellWord(t.Source) + " --pipeline " + shellWord(cmd.Pipeline) + " --swept",
	}
	if result.SQL == "" {
		result.Steps = append([]string{"nothing to run: reading a changelog without a key, only the newest load and what came after it count"}, result.Steps[2:]...)
	}
	return result.print(env.stdout, global.JSON)
}

// sweep returns the statement that removes the rows below the floor; empty
// when none is needed.
func sweep(p *catalog.Pipeline, t *catalog.Table, load catalog.LoadStart, dialect string) (string, error) {
	if len(t.Key) == 0 && t.Mode == catalog.Changelog {
		return "", nil
	}
	epoch := p.EpochAt(load.Since)
	lowest, err := cdc.LoadPosition(epoch, load.Floor, load.Since, cdc.Origin{})
	if err != nil {
		return "", fmt.Errorf("position of the load: %w", err)
	}
	rank := strings.LastIndexByte(string(lowest), '.')
	if rank < 0 {
		return "", errors.New("position of the load has no tie")
	}
	floor := string(lowest[:rank]) // epoch, body and rank: below it is what came before the load
	quote := func(name string) string {
		if dialect == "spark" {
			return "`" + name + "`"
		}
		return `"` + name + `"`
	}
	table := quote(t.Database()) + "." + quote(t.Name())
	if t.Mode == catalog.Mirror {
		return fmt.Sprintf("DELETE FROM %s WHERE cdc_position < '%s'", table, floor), nil
	}
	keys := make([]string, len(t.Key))
	for i, k := range t.Key {
		keys[i] = quote(k)
	}
	list := strings.Join(keys, ", ")
	return fmt.Sprintf(`INSERT INTO %s (%s, cdc_position, cdc_committed_at, cdc_operation)
SELECT %s, '%s', TIMESTAMP '%s UTC', 'delete'
FROM %s
GROUP BY %s
HAVING max(cdc_position) < '%s' AND max_by(cdc_operation, cdc_position) <> 'delete'`,
		table, list, list, lowest, load.Since.UTC().Format("2006-01-02 15:04:05.000000"), table, list, floor), nil
}
