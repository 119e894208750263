// What engines on Iceberg's Java library send to a catalog: a line for each step, how it ended.

import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;

public class Writes {
  static final TableIdentifier POINTS = TableIdentifier.of("tables", "points");
  static final TableIdentifier MADE = TableIdentifier.of("tables", "made");

  interface Step {
    void run() throws Exception;
  }

  static void step(String name, Step step) {
    try {
      step.run();
      System.out.println(name + ": ok");
    } catch (Throwable error) {
      System.out.println(name + ": " + error.getMessage().replace('\n', ' '));
    }
  }

  static OutputFile file(Table table) {
    String name = System.nanoTime() + ".parquet";
    return table.io().newOutputFile(table.locationProvider().newDataLocation(name));
  }

  static DataFile rows(Table table, Object... pairs) throws Exception {
    DataWriter<Record> writer =
        Parquet.writeData(file(table))
            .schema(table.schema())
            .withSpec(table.spec())
            .createWriterFunc(type -> GenericParquetWriter.create(table.schema(), type))
            .build();
    try (writer) {
      for (int i = 0; i < pairs.length; i += 2) {
        GenericRecord row = GenericRecord.create(table.schema());
        row.setField("id", pairs[i]);
        row.setField("name", pairs[i + 1]);
        writer.write(row);
      }
    }
    return writer.toDataFile();
  }

  static DeleteFile deletes(Table table, DataFile of, long position) throws Exception {
    PositionDeleteWriter<Record> writer =
        Parquet.writeDeletes(file(table)).withSpec(table.spec()).buildPositionWriter();
    try (writer) {
      PositionDelete<Record> delete = PositionDelete.create();
      writer.write(delete.set(of.location(), position));
    }
    return writer.toDeleteFile();
  }

  static DataFile largest(Table table) throws Exception {
    DataFile found = null;
    try (var tasks = table.newScan().planFiles()) {
      for (FileScanTask task : tasks) {
        if (found == null || task.file().recordCount() > found.recordCount()) {
          found = task.file();
        }
      }
    }
    return found;
  }

  /** Change one row as Spark's merge-on-read does, with all that it makes sure of first. */
  static void change(Table table, long position, Object... pairs) throws Exception {
    DataFile of = largest(table);
    var delta =
        table
            .newRowDelta()
            .validateFromSnapshot(table.currentSnapshot().snapshotId())
            .validateDeletedFiles()
            .validateDataFilesExist(List.of(of.location()))
            .validateNoConflictingDataFiles()
            .validateNoConflictingDeleteFiles()
            .addDeletes(deletes(table, of, position));
    if (pairs.length > 0) {
      delta.addRows(rows(table, pairs));
    }
    delta.commit();
  }

  static void fill(Transaction transaction, Object... pairs) throws Exception {
    transaction.newAppend().appendFile(rows(transaction.table(), pairs)).commit();
    transaction.commitTransaction();
  }

  public static void main(String[] arguments) throws Exception {
    RESTCatalog catalog = new RESTCatalog();
    catalog.setConf(new Configuration());
    catalog.initialize("served", Map.of("uri", arguments[0], "warehouse", "main"));
    Table points = catalog.loadTable(POINTS);
    Schema plain = new Schema(points.schema().columns());
    step("append", () -> points.newAppend().appendFile(rows(points, 900L, "a")).commit());
    step("update", () -> change(points, 5, 5L, "five"));
    step("delete", () -> change(points, 6));
    step(
        "two appends",
        () -> {
          Table other = catalog.loadTable(POINTS);
          points.newAppend().appendFile(rows(points, 901L, "b")).commit();
          other.newAppend().appendFile(rows(other, 902L, "c")).commit();
          points.refresh();
        });
    step("add", () -> points.updateSchema().addColumn("more", Types.StringType.get()).commit());
    step("drop column", () -> points.updateSchema().deleteColumn("more").commit());
    step(
        "create as",
        () -> fill(catalog.buildTable(MADE, plain).withProperty("havasu.key", "id")
            .createTransaction(), 1L, "one", 2L, "two"));
    step("replace as", () -> fill(catalog.buildTable(MADE, plain).replaceTransaction(), 3L, "three"));
    step(
        "create or replace as",
        () -> fill(catalog.buildTable(MADE, plain).createOrReplaceTransaction(), 4L, "four"));
    Table made = catalog.loadTable(MADE);
    step(
        "same key",
        () -> made.newAppend().appendFile(rows(made, 4L, "again")).commit());
    Table again = catalog.loadTable(MADE);
    step(
        "rewrite",
        () -> again.newRewrite().validateFromSnapshot(again.currentSnapshot().snapshotId())
            .deleteFile(largest(again)).addFile(rows(again, 4L, "four")).commit());
    step(
        "overwrite",
        () -> points.newOverwrite().overwriteByRowFilter(Expressions.alwaysTrue())
            .addFile(rows(points, 1L, "o", 2L, "p")).commit());
    step("expire", () -> points.expireSnapshots().expireOlderThan(Long.MAX_VALUE).commit());
    step("branch", () -> points.manageSnapshots().createBranch("b").commit());
    step("upgrade", () -> points.updateProperties().set("format-version", "3").commit());
    step("rename", () -> catalog.renameTable(MADE, TableIdentifier.of("x", "moved")));
    step("drop", () -> catalog.dropTable(TableIdentifier.of("x", "moved"), true));
  }
}
