//! Imports that are killed, and imports into stores that are not empty.

use std::fs;

use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::until;
use serde_json::Value;

use crate::store::support::{config_map, files, kept, objects, revision, store, stored, text, write_export};

const COUNT: usize = 400;

fn many() -> impl Iterator<Item = (&'static str, Value)> {
    (0..COUNT).map(|number| ("core/configmaps", config_map(&format!("m{number}"), 60_000)))
}

#[test]
fn an_import_into_etcd_that_was_killed_goes_on_and_ends_as_if_it_had_not_been() {
    let scratch = Scratch::new();
    let from = write_export(&scratch, "saved", many());
    for threshold in [1, COUNT / 3, COUNT - 20] {
        let etcd = Etcd::start();
        let endpoint = etcd.endpoint();
        let arguments = ["store", "import", "--from", text(&from), "--etcd-servers", &endpoint];
        let mut import = Running::spawn(program!().command(arguments));
        until("some objects are there, or all of them", || {
            import.has_ended() || etcd.keys("/registry/configmaps/").len() >= threshold
        });
        import.kill();
        let there = etcd.keys("/registry/configmaps/");
        let before: Vec<Value> = there.iter().map(|key| kept(&etcd, key)).collect();
        println!("killed with {} of {COUNT}", there.len());
        let done = store(&arguments[1..]);
        assert_eq!(done.code, 0, "{done:#?}");
        assert!(done.stdout.contains(&format!("{} there before", there.len())), "{}", done.stdout);
        assert_eq!(etcd.keys("/registry/").len(), COUNT);
        for (key, before) in there.iter().zip(before) {
            assert_eq!(kept(&etcd, key), before, "what is there is not written again");
        }
        let to = scratch.path().join(format!("to-{threshold}"));
        assert_eq!(store(&["export", "--etcd-servers", &endpoint, "--to", text(&to)]).code, 0);
        assert!(objects(&to) == objects(&from));
    }
}

#[test]
fn an_import_into_a_file_that_was_killed_changes_nothing_and_can_begin_again() {
    let scratch = Scratch::new();
    let from = write_export(&scratch, "saved", many());
    for round in 0..3 {
        let data = scratch.path().join(format!("data-{round}"));
        let file = data.join("objects.redb");
        let arguments = ["store", "import", "--from", text(&from), "--data-dir", text(&data)];
        let mut import = Running::spawn(program!().command(arguments));
        let new = data.join("objects.redb.new");
        // After so many bytes of the file that is not complete.
        let bytes = [1, 2_000_000, 8_000_000][round];
        until("it is being written, or is complete", || {
            import.has_ended() || fs::metadata(&new).is_ok_and(|new| new.len() >= bytes)
        });
        import.kill();
        println!("killed, and complete: {}", file.exists());
        let done = store(&arguments[1..]);
        assert_eq!(done.code, 0, "{done:#?}");
        assert!(!new.exists());
        let to = scratch.path().join(format!("to-{round}"));
        assert_eq!(store(&["export", "--data-dir", text(&data), "--to", text(&to)]).code, 0);
        assert!(objects(&to) == objects(&from));
        // And once more, when all is there.
        let done = store(&arguments[1..]);
        assert!(done.code == 0 && done.stdout.contains(": 0 written now"), "{done:#?}");
    }
}

#[test]
fn an_import_passes_over_what_is_there_and_equal_and_writes_nothing_beside_anything_else() {
    let scratch = Scratch::new();
    let maps = || ["a", "b", "c"].map(|name| ("core/configmaps", config_map(name, 10)));
    let from = write_export(&scratch, "saved", maps());
    let part = write_export(&scratch, "part", maps().into_iter().take(1));
    let import = |etcd: &Etcd, from| store(&["import", "--from", from, "--etcd-servers", &etcd.endpoint()]);

    let etcd = Etcd::start();
    assert_eq!(import(&etcd, text(&part)).code, 0);
    // The same object as another program writes it.
    etcd.put("/registry/configmaps/default/b", (config_map("b", 10).to_string() + "\n").as_bytes());
    let done = import(&etcd, text(&from));
    assert!(done.code == 0 && done.stdout.contains("1 written now, 2 there before"), "{done:#?}");
    let at = revision(&etcd);
    // Everything is there, and more than in the smaller export.
    import(&etcd, text(&part))
        .refused(&["/core/configmaps/default/b is there, and is not in the export", "Nothing was written"]);
    for (value, word) in
        [(config_map("b", 11).to_string(), "differs"), ("garbage".to_owned(), "is not a ConfigMap")]
    {
        etcd.etcdctl(["del", "/registry/configmaps/default/a"]).ok();
        etcd.put("/registry/configmaps/default/b", value.as_bytes());
        let before = revision(&etcd);
        import(&etcd, text(&from)).refused(&["configmaps/default/b is there", word, "Nothing was written"]);
        assert_eq!(revision(&etcd), before);
        assert_eq!(stored(&etcd, "/registry/configmaps/default/b"), value.as_bytes());
    }
    assert!(revision(&etcd) > at);

    let data = scratch.path().join("data");
    let into_file = |from| store(&["import", "--from", from, "--data-dir", text(&data)]);
    assert_eq!(into_file(text(&part)).code, 0);
    let held = fs::read(data.join("objects.redb")).unwrap();
    into_file(text(&from)).refused(&["objects.redb: it has 1 entries, and is not replaced"]);
    let other = write_export(&scratch, "other", [("core/configmaps", config_map("a", 11))]);
    into_file(text(&other))
        .refused(&["/core/configmaps/default/a is there, and differs", "Nothing was written"]);
    let to = scratch.path().join("to");
    assert_eq!(store(&["export", "--data-dir", text(&data), "--to", text(&to)]).code, 0);
    assert_eq!(objects(&to), objects(&part));
    assert_eq!(fs::read(data.join("objects.redb")).unwrap().len(), held.len());
    assert_eq!(files(&to).len(), 1);
}

#[test]
fn a_store_that_a_server_uses_is_named_as_in_use() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let from = write_export(&scratch, "saved", [("core/configmaps", config_map("a", 1))]);
    let to = scratch.path().join("to");
    for arguments in
        [&["export", "--to", text(&to)][..], &["check"], &["rewrite"], &["import", "--from", text(&from)]]
    {
        let done = store(&[arguments, &["--data-dir", text(&data)]].concat());
        done.must(3, &["objects.redb", "another process has it open"]);
    }
    assert!(!to.exists());
    assert_eq!(served.stop().code, 0);
    assert_eq!(store(&["check", "--data-dir", text(&data)]).code, 0);
}

#[test]
fn a_data_directory_without_a_store_is_an_error_and_stays_as_it_is() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    for command in ["check", "rewrite"] {
        store(&[command, "--data-dir", text(&data)]).must(3, &["objects.redb", "there is no such file"]);
    }
    assert!(!data.exists());
}
