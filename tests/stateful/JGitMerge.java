import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.merge.MergeStrategy;
import org.eclipse.jgit.merge.ThreeWayMerger;
import org.eclipse.jgit.revwalk.RevWalk;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;

/** Merges trees as Gerrit does: "base ours theirs" on each line, answered by a tree or "stopped". */
public class JGitMerge {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] trees = line.split(" ");
            try (Repository repository =
                            new FileRepositoryBuilder().setGitDir(new File(arguments[0])).setBare().build();
                    RevWalk walk = new RevWalk(repository)) {
                ThreeWayMerger merger = MergeStrategy.RECURSIVE.newMerger(repository, true);
                merger.setBase(walk.parseTree(ObjectId.fromString(trees[0])));
                boolean through =
                        merger.merge(
                                walk.parseTree(ObjectId.fromString(trees[1])),
                                walk.parseTree(ObjectId.fromString(trees[2])));
                System.out.println(through ? merger.getResultTreeId().name() : "stopped");
            } catch (Exception error) {
                System.out.println("died: " + error);
            }
        }
    }
}
