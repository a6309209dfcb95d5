package eventide;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop local files whose permissions Java sets itself, instead of starting chmod for each file. */
public class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  public static class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      int bits = permission.toShort();
      if ((bits & ~0777) != 0) { // Java has no name for the sticky bit
        super.setPermission(path, permission);
        return;
      }
      PosixFilePermission[] names = PosixFilePermission.values(); // from "owner may read" to "others may execute"
      Set<PosixFilePermission> allowed = EnumSet.noneOf(PosixFilePermission.class);
      for (int i = 0; i < names.length; i++) {
        if ((bits & (0400 >> i)) != 0) {
          allowed.add(names[i]);
        }
      }
      Files.setPosixFilePermissions(pathToFile(path).toPath(), allowed);
    }
  }
}
