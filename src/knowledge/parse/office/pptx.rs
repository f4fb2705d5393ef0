//! Slides: the title of each as a heading, what else is on it below.

use super::part;
use crate::knowledge::parse::xml::{Event, Reader};
use crate::knowledge::parse::zip::Archive;
use crate::knowledge::parse::{Block, Flow, ParseError};

pub(super) fn parse(archive: &mut Archive<'_>) -> Result<Vec<Block>, ParseError> {
    let mut blocks = Vec::new();
    for (number, name) in archive.numbered("ppt/slides/slide", ".xml") {
        let slide = part(archive, &name)?;
        blocks.extend(read(&slide, &format!("slide {number}"))?);
    }
    Ok(blocks)
}

/// A slide's shapes; the title comes first, wherever it stands.
fn read(xml: &str, place: &str) -> Result<Vec<Block>, ParseError> {
    let (mut titles, mut others) = (Vec::new(), Vec::new());
    let (mut flow, mut in_text, mut is_title) = (Flow::default(), false, false);
    let mut reader = Reader::new(xml);
    while let Some(event) = reader.next()? {
        match event {
            Event::Start(element) => match element.name {
                "sp" => is_title = false,
                "ph" => {
                    is_title |= element.attribute("type").is_some_and(|kind| kind.to_lowercase().ends_with("title"))
                }
                "t" => in_text = true,
                "br" => flow.line_break(),
                _ => {}
            },
            Event::End("t") => in_text = false,
            Event::End("p") => flow.line_break(),
            Event::End("tc") => flow.push(" | "),
            Event::End("sp" | "graphicFrame") => {
                let shapes = if is_title { &mut titles } else { &mut others };
                shapes.extend(flow.take());
                is_title = false;
            }
            Event::Text(text) if in_text => flow.push(&text),
            _ => {}
        }
    }
    others.extend(flow.take());
    let titles = titles.iter().map(|title| Block::heading(1, &title.replace('\n', " ")));
    let others = others.iter().map(|text| Block::paragraph(text));
    Ok(titles.chain(others).map(|block| block.at(place)).collect())
}
