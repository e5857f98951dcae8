//! Links libhakmem: from the folder that LIBHAKMEM_DIR names, else where pkg-config finds it.

use std::env;
use std::path::Path;
use std::process::Command;

fn folder() -> String {
    if let Ok(folder) = env::var("LIBHAKMEM_DIR") {
        let library = Path::new(&folder).join("libhakmem.a");
        assert!(
            library.exists(),
            "LIBHAKMEM_DIR={folder}: there is no libhakmem.a in that folder"
        );
        return folder;
    }
    let found = Command::new("pkg-config")
        .args(["--variable=libdir", "hakmem"])
        .output();
    match found {
        // Some print blanks as a shell wants them.
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .trim()
            .replace("\\ ", " "),
        _ => panic!("hakmem is not installed: set LIBHAKMEM_DIR to the folder of libhakmem.a"),
    }
}

fn main() {
    let folder = folder();
    for variable in ["LIBHAKMEM_DIR", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    // A new version of the library is linked in as well.
    println!("cargo:rerun-if-changed={folder}/libhakmem.a");
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=static=hakmem");
}
