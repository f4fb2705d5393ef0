//! Office documents: ZIP archives with parts in XML. What a document is, its parts say.

mod docx;
mod pptx;
mod xlsx;

use super::xml::{Event, Reader};
use super::zip::Archive;
use super::{ParseError, Parsed, text};
use crate::knowledge::Kind;

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let mut archive = Archive::open(bytes)?;
    let (kind, blocks) = match () {
        () if archive.has("word/document.xml") => (Kind::Docx, docx::parse(&mut archive)?),
        () if archive.has("xl/workbook.xml") => (Kind::Xlsx, xlsx::parse(&mut archive)?),
        () if archive.has("ppt/presentation.xml") => (Kind::Pptx, pptx::parse(&mut archive)?),
        () if archive.has("EncryptedPackage") => return Err(ParseError::Encrypted),
        () => return Err(ParseError::Unsupported { what: "an archive".to_owned() }),
    };
    let title = title(&mut archive)?;
    Ok(Parsed { kind, title, blocks })
}

/// A part as text; an empty one if there is none.
fn part(archive: &mut Archive<'_>, name: &str) -> Result<String, ParseError> {
    match archive.read(name)? {
        Some(bytes) => text::decode(&bytes).map_err(|_| ParseError::broken(format!("`{name}` is no text"))),
        None => Ok(String::new()),
    }
}

/// What the document calls itself.
fn title(archive: &mut Archive<'_>) -> Result<Option<String>, ParseError> {
    let properties = part(archive, "docProps/core.xml")?;
    let (mut reader, mut within, mut title) = (Reader::new(&properties), false, String::new());
    while let Some(event) = reader.next()? {
        match event {
            Event::Start(element) => within = element.name == "title",
            Event::End(_) => within = false,
            Event::Text(text) if within => title.push_str(&text),
            Event::Text(_) => {}
        }
    }
    let title = crate::knowledge::one_line(&title);
    Ok((!title.is_empty()).then_some(title))
}
