//! Files as they come: several in a form, or one as the body. A note comes as JSON.

use axum::body::{Body, Bytes};
use axum::http::header;
use serde::Deserialize;
use utoipa::IntoParams;

use super::knowledge::NoteDraft;
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::ApiError;
use crate::review::Upload;

/// What a form has beside its files.
const FORM_BYTES_MAX: usize = 64 * 1024;
/// Most parts of a form.
const PARTS_MAX: usize = 64;

/// What a body as it is does not say.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct UploadQuery {
    /// What the file is called that is the body; not for forms and notes.
    name: Option<String>,
    /// What it is called in citations; what it calls itself if not given.
    title: Option<String>,
}

/// What was brought.
pub(super) enum Brought {
    Files(Vec<Upload>),
    Note(NoteDraft),
}

impl App {
    /// Reads what is to be added to a tenant's knowledge. Nothing has happened yet when this fails.
    pub(super) async fn read_upload(
        &self,
        visitor: &Visitor,
        query: UploadQuery,
        body: Body,
    ) -> Result<Brought, ApiError> {
        let kind = visitor.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
        let plain = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        let name = query.name.filter(|name| !name.trim().is_empty());
        if plain == "application/json" && name.is_none() {
            return self.read_json(visitor, body).await.map(Brought::Note);
        }
        let bytes_max = self.doors.document_bytes_max + FORM_BYTES_MAX;
        let bytes = self.read_up_to(&visitor.reservation, body, bytes_max, "document_bytes_max").await?;
        if plain == "multipart/form-data" {
            return files(&kind, &bytes, query.title.as_deref()).map(Brought::Files);
        }
        let name = name.ok_or_else(|| {
            let detail = "name the file with ?name=prices.csv, send a form (multipart/form-data), or a note as JSON";
            ApiError::bad_request("no_name", "No name given", detail)
        })?;
        Ok(Brought::Files(vec![Upload { name, title: query.title, bytes }]))
    }
}

/// The files of a form. Other fields are passed over, but for the title.
fn files(kind: &str, body: &Bytes, title: Option<&str>) -> Result<Vec<Upload>, ApiError> {
    let broken = |detail: &str| ApiError::bad_request("invalid_form", "Invalid form", detail);
    let boundary = parameter(kind, "boundary").filter(|boundary| !boundary.is_empty() && boundary.len() <= 200);
    let boundary = boundary.ok_or_else(|| broken("the content type names no boundary"))?;
    let parts = parts(body, boundary.as_bytes()).ok_or_else(|| broken("the form has no end, or too many parts"))?;
    let mut title = title.map(str::to_owned);
    let mut files = Vec::new();
    for (head, content) in parts {
        let disposition = disposition(&head);
        match (parameter(disposition, "filename"), parameter(disposition, "name").as_deref()) {
            (Some(name), _) if !name.is_empty() => files.push(Upload { name, title: None, bytes: content }),
            (None, Some("title")) => title = String::from_utf8(content.to_vec()).ok(),
            _ => {}
        }
    }
    // A title for several files would name none of them.
    if let [file] = files.as_mut_slice() {
        file.title = title;
    }
    Ok(files)
}

/// The parts of a form: their heads, and what is in them.
fn parts(body: &Bytes, boundary: &[u8]) -> Option<Vec<(String, Bytes)>> {
    let line = [b"--", boundary].concat();
    let mut at = find(body, &line, 0)? + line.len();
    let mut parts = Vec::new();
    loop {
        if body[at..].starts_with(b"--") {
            return Some(parts);
        }
        let head_at = find(body, b"\r\n", at)? + 2;
        let (head_end, content) = match body[head_at..].starts_with(b"\r\n") {
            true => (head_at, head_at + 2),
            false => find(body, b"\r\n\r\n", head_at).map(|end| (end, end + 4))?,
        };
        let end = find(body, &[b"\r\n", line.as_slice()].concat(), content.saturating_sub(2))?;
        let head = String::from_utf8_lossy(&body[head_at..head_end]).into_owned();
        parts.push((head, body.slice(content.min(end)..end)));
        if parts.len() > PARTS_MAX {
            return None;
        }
        at = end + 2 + line.len();
    }
}

fn find(body: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let body = body.get(from..)?;
    let first = what.first()?;
    let mut at = 0;
    loop {
        at += body[at..].iter().position(|byte| byte == first)?;
        if body[at..].starts_with(what) {
            return Some(from + at);
        }
        at += 1;
    }
}

fn disposition(head: &str) -> &str {
    let is = |line: &&str| line.to_ascii_lowercase().starts_with("content-disposition:");
    head.split("\r\n").find(is).unwrap_or("")
}

/// A parameter of a header, in quotes or without; a name in another alphabet may come percent-encoded.
fn parameter(header: &str, name: &str) -> Option<String> {
    let value = |wanted: &str| {
        let lower = header.to_ascii_lowercase();
        let mark = format!("{wanted}=");
        let at = lower.match_indices(&mark).find(|(at, _)| lower[..*at].trim_end().ends_with(';')).map(|(at, _)| at)?;
        let rest = &header[at + mark.len()..];
        match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => rest.split(';').next().map(str::trim),
        }
    };
    let encoded = value(&format!("{name}*")).and_then(|text| text.splitn(3, '\'').nth(2));
    let decoded = encoded.map(|text| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned());
    decoded.or_else(|| value(name).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIND: &str = "multipart/form-data; boundary=\"x y\"";

    #[track_caller]
    fn check(body: &str, expected: &[(&str, &str)]) {
        let files = files(KIND, &Bytes::from(body.to_owned()), None).expect("a form");
        let told: Vec<_> =
            files.iter().map(|file| (file.name.as_str(), std::str::from_utf8(&file.bytes).expect("text"))).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_form_has_files() {
        check(
            "before\r\n--x y\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\none\r\ntwo\
             \r\n--x y\r\ncontent-disposition: form-data; name=f; filename*=UTF-8''na%C3%AFve.md\r\n\r\n\r\n--x y\r\n\r\nno head\r\n--x y--\r\n",
            &[("a.txt", "one\r\ntwo"), ("naïve.md", "")],
        );
    }

    #[test]
    fn a_title_belongs_to_a_single_file() {
        let body = "--x y\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nPrices\r\n--x y\r\n\
                    Content-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\nx\r\n--x y--";
        let files = files(KIND, &Bytes::from(body), None).expect("a form");
        assert_eq!((files.len(), files[0].title.as_deref()), (1, Some("Prices")));
    }

    #[test]
    fn a_form_without_an_end_is_none() {
        for body in ["", "--x y", "--x y\r\n\r\nabc", "--x y\r\nhead"] {
            assert!(files(KIND, &Bytes::from(body), None).is_err(), "{body}");
        }
        assert!(files("multipart/form-data", &Bytes::from("--x y--"), None).is_err());
    }

    proptest! {
        #[test]
        fn any_form_is_read_or_refused(body in "(--x y|\r\n|--|content-disposition: form-data; |filename=\"?|\"|\\PC){0,40}") {
            let _ = files(KIND, &Bytes::from(body), None);
        }

        #[test]
        fn what_is_in_a_file_comes_out(content in proptest::collection::vec(any::<u8>(), 0..200)) {
            let head = b"--bnd\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\n".as_slice();
            let body = [head, &content, b"\r\n--bnd--"].concat();
            let files = files("multipart/form-data; boundary=bnd", &Bytes::from(body), None).expect("a form");
            prop_assert_eq!(&files[0].bytes, &content);
        }
    }
}
