//! The commands of `docs/install-kubernetes.md`, typed one after the other, with the files that it shows.

use std::fs;

use portcullis_testkit::recorded::repository;

use crate::deploy::support::{copy_deploy, helm_library, helm_script};
use crate::kubectl::support::Served;

#[test]
fn the_page_on_clusters_shows_what_happens() {
    let served = Served::start(&[]);
    let folder = served.scratch.path();
    copy_deploy(folder);
    let page = fs::read_to_string(repository().join("docs/install-kubernetes.md")).unwrap();
    // A block whose first line is a comment with a path is a file.
    let files: Vec<&str> = page.split("```yaml\n# ").skip(1).collect();
    assert_eq!(files.len(), 3);
    for file in files {
        let (name, text) = file.split("\n```").next().unwrap().split_once('\n').unwrap();
        served.scratch.write(name, format!("{text}\n"));
    }
    let helm = format!(
        "helm() {{ PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='{}' /usr/bin/python3 '{}' \"$@\"; }}",
        helm_library().display(),
        helm_script().display()
    );
    served.types("docs/install-kubernetes.md", &["kubectl", "helm"], folder, &helm);
}
