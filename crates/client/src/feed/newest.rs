//! The newest revision of a cluster, asked for once for all who wait.

use portcullis_policy::objects::Kind;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::kinds::Place;
use crate::connect::Connection;

/// The most callers that wait for one answer. Others do without.
const MOST: usize = 4_096;

/// See the module.
pub(super) struct Newest(mpsc::Sender<oneshot::Sender<Option<u64>>>);

#[derive(Deserialize)]
struct List {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

impl Newest {
    /// Asks by this.
    pub(super) fn new<A>(ask: impl FnMut() -> A + Send + 'static, tasks: &mut JoinSet<()>) -> Self
    where
        A: Future<Output = Option<u64>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(MOST);
        tasks.spawn(answer(ask, receiver));
        Self(sender)
    }

    /// The revision that the cluster has now or later. None: it does not answer.
    pub(super) async fn ask(&self) -> Option<u64> {
        let (sender, receiver) = oneshot::channel();
        self.0.try_send(sender).ok()?;
        receiver.await.ok().flatten()
    }
}

/// Asks an API server with a list of this kind. Without a kind there is no answer.
pub(super) async fn of_api(connection: Connection, kind: Option<Kind>) -> Option<u64> {
    let path = format!("{}?limit=1", Place::of(kind?)?.resource(0).path());
    let list: Result<List, _> = connection.call(http::Method::GET, &path, None).await;
    match list {
        Ok(list) => list.metadata.resource_version.parse().ok(),
        Err(error) => {
            tracing::debug!(%error, "the newest revision is not known");
            None
        }
    }
}

async fn answer<A: Future<Output = Option<u64>>>(
    mut ask: impl FnMut() -> A,
    mut questions: mpsc::Receiver<oneshot::Sender<Option<u64>>>,
) {
    while let Some(first) = questions.recv().await {
        // All who asked before the request; those who ask meanwhile wait for the next one.
        let mut waiting = vec![first];
        while let Ok(next) = questions.try_recv() {
            waiting.push(next);
        }
        let newest = ask().await;
        for asker in waiting {
            // Whoever has gone needs no answer.
            let _ = asker.send(newest);
        }
    }
}
