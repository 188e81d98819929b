//! Arbitrary text as a patch: nothing may panic or take long.

use cabana_agent::output::{cut, fold};
use cabana_agent::patch::{Patch, PatchError};
use cabana_fuzz_driver::{Fuzz, kind_of};

const WORDS: [&str; 26] = [
    "diff --git a/x b/x\n",
    "--- a/x\n+++ b/x\n",
    "--- /dev/null\n",
    "+++ /dev/null\n",
    "@@ -1,2 +1,2 @@\n",
    "@@ -0,0 +1 @@\n",
    "@@\n",
    "@@ one\n",
    "\n ",
    "\n+",
    "\n-",
    "\\ No newline at end of file\n",
    "rename from x\nrename to y\n",
    "new file mode 100755\n",
    "deleted file mode 100644\n",
    "old mode 100644\nnew mode 100755\n",
    "\"a/\\303\\244\"",
    "*** Begin Patch\n",
    "*** Add File: new\n",
    "*** Update File: x\n",
    "*** Delete File: x\n",
    "*** Move to: y\n",
    "*** End of File\n",
    "*** End Patch\n",
    "```\n",
    "\r\n",
];

/// The file that patches are tried on.
const FILE: &[u8] = b"one\ntwo\nthree\r\nfour \n\xff\n\nfive\nsix\nseven\neight\nnine\nten";

#[test]
fn fuzz_patches() {
    Fuzz::new("patch").words(&WORDS).run(|input| {
        let text = String::from_utf8_lossy(input);
        let shown = cut(&fold(&text), 1000, None);
        assert!(shown.text.len() < 1100);
        let applied = Patch::parse(&text)
            .and_then(|patch| patch.apply(|path| Ok::<_, PatchError>(path.ends_with('x').then(|| FILE.to_vec()))));
        match applied {
            Ok(applied) => {
                let sizes: usize = applied.files.iter().map(|file| file.new.len()).sum();
                assert!(sizes <= applied.files.len() * (FILE.len() + 20) + 2 * text.len());
                format!("{} {:?}", applied.files.len(), applied.files.first().map(|file| &file.kind))
            }
            Err(error) => {
                assert!(error.to_string().len() < 16 << 10, "{error}");
                kind_of(&error.to_string())
            }
        }
    });
}
