// Statements of SQL that Flink runs, a line of JSON for each: its rows, or why it failed.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

public class Flink {
  static final int BATCH = 0;
  static final int STREAM = 1;

  /** A value of a row as JSON. */
  static String text(Object value) {
    if (value == null) return "null";
    if (value instanceof Number || value instanceof Boolean) return value.toString();
    if (value instanceof byte[]) {
      var found = new StringBuilder("\"");
      for (byte each : (byte[]) value) found.append(String.format("%02x", each));
      return found.append('"').toString();
    }
    return '"' + value.toString().replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"';
  }

  /** The rows of a statement; of one that begins with `STREAM n`, which would never end, n rows. */
  static String rows(TableEnvironment[] environments, String line) throws Exception {
    boolean streams = line.startsWith("STREAM ");
    int most = Integer.MAX_VALUE;
    if (streams) {
      String[] parts = line.split(" ", 3);
      most = Integer.parseInt(parts[1]);
      line = parts[2];
    }
    TableResult result = environments[streams ? STREAM : BATCH].executeSql(line);
    List<String> rows = new ArrayList<>();
    if (result.getJobClient().isPresent() && (line.contains("INSERT ") || line.contains(" AS SELECT "))) {
      result.await();
      return "[]";
    }
    try (CloseableIterator<Row> each = result.collect()) {
      while (rows.size() < most && each.hasNext()) {
        Row row = each.next();
        List<String> values = new ArrayList<>();
        for (int i = 0; i < row.getArity(); i++) values.add(text(row.getField(i)));
        rows.add("[" + String.join(", ", values) + "]");
      }
    }
    return "[" + String.join(", ", rows) + "]";
  }

  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    settings.setString("parallelism.default", "1");
    settings.setString("rest.port", "0");
    TableEnvironment[] environments = {
      TableEnvironment.create(
          EnvironmentSettings.newInstance().inBatchMode().withConfiguration(settings).build()),
      TableEnvironment.create(
          EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build())
    };
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      try {
        if (line.startsWith("CREATE CATALOG")) environments[STREAM].executeSql(line);
        System.out.println(rows(environments, line));
      } catch (Throwable error) {
        while (error.getCause() != null) error = error.getCause();
        System.out.println(text(String.valueOf(error.getMessage())));
      }
      System.out.flush();
    }
  }
}
