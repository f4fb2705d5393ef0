//! A copy of everything, as a body: a server writes no file that a client names.

use std::fs::File;
use std::io::Read;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::mpsc::{Sender, channel};

use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::store::StoreError;

/// Bytes of a piece, and pieces that wait for a slow reader.
const PIECE_BYTES: usize = 256 << 10;
const PIECES_WAITING: usize = 4;

/// A copy of the whole data file, of all tenants, as it is at one moment; see docs/backup.md.
#[utoipa::path(post, path = "/api/v1/backup",
    responses((status = 200, body = String, content_type = "application/octet-stream"),
              (status = 403, body = ErrorView), (status = 501, body = ErrorView)))]
pub(in crate::api) async fn make(State(app): State<App>, visitor: Visitor) -> Result<Response, ApiError> {
    visitor.access.check_everybody()?;
    let copy = app.memory.backup().await.map_err(|error| match error {
        StoreError::Refused(detail) => {
            ApiError::new(StatusCode::NOT_IMPLEMENTED, "no_backup", "No backup of this store", detail)
        }
        error => error.into(),
    })?;
    let (pieces, taken) = channel(PIECES_WAITING);
    let file = copy.file;
    tokio::task::spawn_blocking(move || send(file, &pieces));
    let body = Body::from_stream(stream::unfold(taken, |mut taken| async { Some((taken.recv().await?, taken)) }));
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, copy.bytes.to_string()),
    ];
    Ok((headers, body).into_response())
}

/// Sends a file in pieces, until it ends or nobody takes them any more.
fn send(mut file: File, pieces: &Sender<std::io::Result<Bytes>>) {
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = file.read(&mut piece);
        let ended = !matches!(read, Ok(1..));
        let sent = match read {
            Ok(0) => return,
            Ok(bytes) => {
                piece.truncate(bytes);
                pieces.blocking_send(Ok(piece.into()))
            }
            Err(error) => pieces.blocking_send(Err(error)),
        };
        if sent.is_err() || ended {
            return;
        }
    }
}
