//! The migrations are embedded: a new file there must rebuild the crate.

fn main() {
    // Cargo reads instructions from the standard output of a build script.
    #[allow(clippy::print_stdout)]
    {
        println!("cargo::rerun-if-changed=migrations");
    }
}
