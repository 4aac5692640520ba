//! The conformance suite.

use std::sync::Arc;

use portcullis_store::conformance;
use portcullis_testkit::etcd::Etcd as Server;

use super::cluster::open;

macro_rules! holds {
    ($($name:ident: $check:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let etcd = Server::start();
            let store = Arc::new(open(&etcd).await);
            conformance::$check(&store).await;
        }
    )*};
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_lists_what_was_there_before_its_start_as_long_as_etcd_has_it_et_21() {
    let etcd = Server::start();
    let writer = Arc::new(open(&etcd).await);
    conformance::lists_from_before_the_start(&writer, async || Arc::new(open(&etcd).await)).await;
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
