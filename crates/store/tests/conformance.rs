//! The embedded store does what every backend must do, in memory and in a file.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::sync::Arc;

use portcullis_store::{Embedded, Expect, Options, Revision, Store as _, conformance};
use portcullis_testkit::scratch::Scratch;

/// Runs a check over a store in memory and one in a file.
macro_rules! holds {
    ($($name:ident: $check:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let memory: Arc<Embedded> = Arc::new(Options::memory().open().unwrap());
            conformance::$check(&memory).await;
            let folder = Scratch::new();
            let file: Arc<Embedded> = Arc::new(Options::file(folder.path().join("store")).open().unwrap());
            conformance::$check(&file).await;
        }
    )*};
}

holds! {
    revisions_grow_with_each_change: revisions,
    a_commit_that_expects_something_else_changes_nothing: expectations,
    the_revision_is_written_into_the_value: revision_in_value,
    a_commit_conflicts_about_what_it_relies_on: what_is_relied_on,
    no_writer_overwrites_another: concurrent_writers,
    lists_show_the_state_at_any_revision: lists_at_revisions,
    pages_show_one_state_while_others_write: pages_show_one_state,
    watches_deliver_each_change_once_from_any_revision: watches_from_revisions,
    watches_that_are_resumed_miss_and_repeat_nothing: watches_resume_under_writers,
    watches_deliver_whole_commits: watches_see_whole_commits,
    what_is_compacted_is_refused_and_the_rest_stays: compaction,
}

#[tokio::test]
async fn the_embedded_store_leaves_no_revision_out() {
    let store = Options::memory().open().unwrap();
    let Revision(first) = store.revision();
    for number in 1..=10 {
        let write = conformance::put("/a", Expect::Anything, &number.to_string());
        assert_eq!(store.commit(vec![write]).await.unwrap().revision, Revision(first + number));
    }
}
