//! Kubeconfig files that change while a program goes on.

use std::time::Duration;

use portcullis_client::Connection;

/// Takes up a kubeconfig whose certificate or token was renewed.
pub(crate) async fn refresh(connection: Connection) {
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        match connection.refresh().await {
            Ok(true) => tracing::info!("connecting anew with what the kubeconfig says now"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the kubeconfig cannot be used; the last connection stays"),
        }
    }
}
