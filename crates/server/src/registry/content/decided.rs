//! The objects that decisions depend on, for the commands that decide without a server (ET-61).

use std::sync::Arc;

use kinds::resource::Resource;
use policy::engine::{Builder, Engine, EngineConfig};
use policy::objects::{Kind, Object};

use super::{Content, ContentError, Item, Unreadable};
use crate::certificate_requests::Pkcs10Reader;
use crate::registry::storage;

/// The number of objects that were read, and those that cannot be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// The revision of all objects.
    pub revision: u64,
    /// The number of objects that were used.
    pub objects: u64,
    /// Objects that cannot be used, and so grant nothing.
    pub unusable: Vec<Unreadable>,
}

impl Content {
    /// An engine that decides on the objects of the store.
    ///
    /// # Errors
    /// The modes contradict each other, or see [`Content::decided`].
    pub async fn engine(&self, config: EngineConfig) -> Result<(Engine, Decided), ContentError> {
        let certificate_requests = Some(Arc::new(Pkcs10Reader) as Arc<_>);
        let builder = Builder::new(EngineConfig { certificate_requests, ..config });
        let mut builder = builder.map_err(|error| ContentError::Invalid(error.to_string()))?;
        let read =
            self.decided(&mut |object| builder.take(object).map_err(|error| error.to_string())).await?;
        Ok((builder.finish(), read))
    }

    /// Passes every object that decisions depend on to `take`, all at one revision. Like a server, goes on after an object that
    /// cannot be used.
    ///
    /// # Errors
    /// The store cannot be reached or read.
    pub async fn decided(
        &self,
        take: &mut (dyn FnMut(Object<'_>) -> Result<(), String> + Send),
    ) -> Result<Decided, ContentError> {
        let kind_of = |row: &Resource| Kind::of(&row.api_version(), row.kind);
        let rows: Vec<(&'static Resource, Kind)> =
            self.kinds.stored().filter_map(|row| Some((row, kind_of(row)?))).collect();
        let only: Vec<&'static Resource> = rows.iter().map(|(row, _)| *row).collect();
        let mut source = self.source_of(&only).await?;
        let mut read = Decided { revision: source.revision(), ..Decided::default() };
        loop {
            let page = source.next().await?;
            if page.is_empty() {
                return Ok(read);
            }
            for item in page {
                match item {
                    Item::Object { key, json, .. } => {
                        let found = rows.iter().find(|(row, _)| key.starts_with(&storage::prefix(row, "")));
                        let Some((_, kind)) = found else { continue };
                        match use_object(*kind, &json, take) {
                            Ok(()) => read.objects = read.objects.saturating_add(1),
                            Err(why) => read.unusable.push(Unreadable { key: key.into(), why }),
                        }
                    }
                    Item::Unreadable(_, unreadable) => read.unusable.push(unreadable),
                    Item::Foreign(_) => {}
                }
            }
        }
    }
}

fn use_object(
    kind: Kind,
    json: &[u8],
    take: &mut (dyn FnMut(Object<'_>) -> Result<(), String> + Send),
) -> Result<(), String> {
    let unusable = |error: &dyn std::fmt::Display| format!("cannot be used: {error}");
    let text = std::str::from_utf8(json).map_err(|error| unusable(&error))?;
    let object = Object::parse(kind, text).map_err(|error| unusable(&error))?;
    take(object).map_err(|error| unusable(&error))
}
