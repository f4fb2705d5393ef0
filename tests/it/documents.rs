//! Documents of each kind, made by hand: archives, Office files, PDFs.

use std::io::Write;

use flate2::write::{DeflateEncoder, ZlibEncoder};
use flate2::{Compression, Crc};

/// A part of an archive, as the directory tells of it.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) packed: Vec<u8>,
    pub(crate) size: u32,
    pub(crate) crc: u32,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    /// As Unix has it; the upper half of what the directory holds.
    pub(crate) mode: u32,
}

impl Part {
    pub(crate) fn new(name: &str, content: impl AsRef<[u8]>) -> Self {
        let content = content.as_ref();
        let mut crc = Crc::new();
        crc.update(content);
        let (name, size) = (name.to_owned(), content.len() as u32);
        Self { name, packed: deflate(content), size, crc: crc.sum(), method: 8, flags: 0, mode: 0o100_644 }
    }
}

pub(crate) fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

pub(crate) fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

/// A ZIP archive.
pub(crate) fn zip(parts: &[Part]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for part in parts {
        let at = bytes.len() as u32;
        let common = |out: &mut Vec<u8>| {
            for number in [20, part.flags, part.method, 0, 0] {
                out.extend(number.to_le_bytes());
            }
            for number in [part.crc, part.packed.len() as u32, part.size] {
                out.extend(number.to_le_bytes());
            }
            out.extend((part.name.len() as u16).to_le_bytes());
            out.extend(0_u16.to_le_bytes());
        };
        bytes.extend(b"PK\x03\x04");
        common(&mut bytes);
        bytes.extend(part.name.as_bytes());
        bytes.extend(&part.packed);
        directory.extend(b"PK\x01\x02\x14\x03");
        common(&mut directory);
        directory.extend([0; 6]);
        directory.extend((part.mode << 16).to_le_bytes());
        directory.extend(at.to_le_bytes());
        directory.extend(part.name.as_bytes());
    }
    let (at, count) = (bytes.len() as u32, (parts.len() as u16).to_le_bytes());
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count, count].concat());
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(at.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;

fn core(title: &str) -> Part {
    let space = "xmlns:cp=\"http://schemas.openxmlformats.org/package/2006/metadata/core-properties\" \
                 xmlns:dc=\"http://purl.org/dc/elements/1.1/\"";
    Part::new(
        "docProps/core.xml",
        format!("{HEAD}<cp:coreProperties {space}><dc:title>{title}</dc:title></cp:coreProperties>"),
    )
}

/// A text of Word: paragraphs, `# ` before those that are headings.
pub(crate) fn docx(title: &str, paragraphs: &[&str]) -> Vec<u8> {
    let paragraph = |text: &&str| match text.strip_prefix("# ") {
        Some(heading) => {
            format!(r#"<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>{heading}</w:t></w:r></w:p>"#)
        }
        None => {
            let (first, rest) = text.split_at(text.len() / 2);
            format!(r#"<w:p><w:r><w:t xml:space="preserve">{first}</w:t></w:r><w:r><w:t>{rest}</w:t></w:r></w:p>"#)
        }
    };
    let table = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Cell</w:t></w:r></w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>";
    let body: String = paragraphs.iter().map(paragraph).collect();
    docx_of(title, &format!("{body}{table}"))
}

pub(crate) fn docx_of(title: &str, body: &str) -> Vec<u8> {
    let space = "xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\"";
    let text = format!("{HEAD}<w:document {space}><w:body>{body}</w:body></w:document>");
    zip(&[Part::new("[Content_Types].xml", "<Types/>"), Part::new("word/document.xml", text), core(title)])
}

/// A workbook of one sheet. Texts are shared, numbers are not, and what looks like `date:45000` is a day.
pub(crate) fn xlsx(sheet: &str, rows: &[&[&str]]) -> Vec<u8> {
    let (mut strings, mut data) = (Vec::new(), String::new());
    for (at, row) in rows.iter().enumerate() {
        data.push_str(&format!("<row r=\"{}\">", at + 1));
        for (column, value) in ('A'..).zip(*row) {
            let name = format!("{column}{}", at + 1);
            data.push_str(&match (value.strip_prefix("date:"), value.parse::<f64>()) {
                (Some(day), _) => format!("<c r=\"{name}\" s=\"1\"><v>{day}</v></c>"),
                (None, Ok(number)) => format!("<c r=\"{name}\"><v>{number}</v></c>"),
                (None, Err(_)) => {
                    strings.push(format!("<si><t>{value}</t></si>"));
                    format!("<c r=\"{name}\" t=\"s\"><v>{}</v></c>", strings.len() - 1)
                }
            });
        }
        data.push_str("</row>");
    }
    let sheet_data = format!("{HEAD}<worksheet><sheetData>{data}</sheetData></worksheet>");
    xlsx_of(sheet, &sheet_data, &format!("{HEAD}<sst>{}</sst>", strings.concat()))
}

pub(crate) fn xlsx_of(sheet: &str, data: &str, strings: &str) -> Vec<u8> {
    let book = format!(
        r#"{HEAD}<workbook xmlns:r="r"><sheets><sheet name="{sheet}" sheetId="1" r:id="rId1"/></sheets></workbook>"#
    );
    let relations = format!(
        r#"{HEAD}<Relationships><Relationship Id="rId1" Type="t" Target="worksheets/sheet1.xml"/></Relationships>"#
    );
    let styles = format!(r#"{HEAD}<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>"#);
    zip(&[
        Part::new("xl/workbook.xml", book),
        Part::new("xl/_rels/workbook.xml.rels", relations),
        Part::new("xl/sharedStrings.xml", strings),
        Part::new("xl/styles.xml", styles),
        Part::new("xl/worksheets/sheet1.xml", data),
    ])
}

/// Slides, each with a title and a text.
pub(crate) fn pptx(slides: &[(&str, &str)]) -> Vec<u8> {
    let shape = |kind: &str, text: &str| {
        format!(
            "<p:sp><p:nvSpPr><p:nvPr><p:ph type=\"{kind}\"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
        )
    };
    let mut parts = vec![Part::new("ppt/presentation.xml", format!("{HEAD}<p:presentation/>"))];
    for (number, (title, text)) in (1..).zip(slides) {
        let tree = format!("{}{}", shape("body", text), shape("ctrTitle", title));
        let slide = format!("{HEAD}<p:sld><p:cSld><p:spTree>{tree}</p:spTree></p:cSld></p:sld>");
        parts.push(Part::new(&format!("ppt/slides/slide{number}.xml"), slide));
    }
    zip(&parts)
}

/// How the text of a PDF is written.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Letters {
    /// In the letters of Windows.
    Plain,
    /// In codes of two bytes, with a table of what they mean, and everything but the pages packed.
    Coded,
}

/// A PDF with a page for each text; lines are lines.
pub(crate) fn pdf(title: &str, pages: &[&str], letters: Letters) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|at| format!("{} 0 R", 10 + 2 * at)).collect();
    let font = match letters {
        Letters::Plain => "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_owned(),
        Letters::Coded => {
            "<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[6 0 R]/ToUnicode 5 0 R>>"
                .to_owned()
        }
    };
    let mut objects = vec![
        (1, "<</Type/Catalog/Pages 2 0 R>>".to_owned()),
        (2, format!("<</Type/Pages/Kids[{}]/Count {}/Resources<</Font<</F1 3 0 R>>>>>>", kids.join(" "), pages.len())),
        (3, font),
        (4, format!("<</Title({title})>>")),
        (6, "<</Type/Font/Subtype/CIDFontType2/DW 500>>".to_owned()),
    ];
    let mut streams = Vec::new();
    if letters == Letters::Coded {
        let map =
            "1 begincodespacerange <0000> <ffff> endcodespacerange 1 beginbfrange <0120> <019f> <0020> endbfrange";
        streams.push((5, map.as_bytes().to_vec(), ""));
    }
    for (at, text) in pages.iter().enumerate() {
        objects.push((10 + 2 * at, format!("<</Type/Page/Parent 2 0 R/Contents {} 0 R>>", 11 + 2 * at)));
        streams.push((11 + 2 * at, content(text, letters), ""));
    }
    pdf_of(&objects, &streams, letters == Letters::Coded, "/Root 1 0 R/Info 4 0 R")
}

fn content(text: &str, letters: Letters) -> Vec<u8> {
    let line = |line: &str| match letters {
        Letters::Plain => format!("({}) Tj", line.replace('(', "\\(").replace(')', "\\)")).into_bytes(),
        Letters::Coded => {
            // Blanks are gaps here, as many programs write them.
            let words = line.split(' ').map(|word| {
                let codes: String = word.chars().map(|c| format!("{:04x}", c as u32 + 0x100)).collect();
                format!("<{codes}>")
            });
            format!("[{}] TJ", words.collect::<Vec<_>>().join(" -300 ")).into_bytes()
        }
    };
    let mut content = b"q BT /F1 12 Tf 72 700 Td 14 TL ".to_vec();
    for text in text.lines() {
        content.extend(line(text));
        content.extend(b" T* ");
    }
    content.extend(b"ET Q");
    content
}

/// A PDF of these objects and streams; packed, all objects lie in one stream.
pub(crate) fn pdf_of(
    objects: &[(usize, String)],
    streams: &[(usize, Vec<u8>, &str)],
    packed: bool,
    trailer: &str,
) -> Vec<u8> {
    let mut bytes = b"%PDF-1.5\n".to_vec();
    let mut stream = |number: usize, dict: &str, content: &[u8]| {
        let content = zlib(content);
        bytes.extend(
            format!("{number} 0 obj\n<</Length {}/Filter/FlateDecode{dict}>>\nstream\n", content.len()).bytes(),
        );
        bytes.extend(content);
        bytes.extend(b"\nendstream\nendobj\n");
    };
    for (number, content, dict) in streams {
        stream(*number, dict, content);
    }
    if packed {
        let (mut index, mut all) = (String::new(), String::new());
        for (number, object) in objects {
            index.push_str(&format!("{number} {} ", all.len()));
            all.push_str(object);
            all.push(' ');
        }
        let dict = format!("/Type/ObjStm/N {}/First {}", objects.len(), index.len());
        stream(900, &dict, format!("{index}{all}").as_bytes());
        stream(901, &format!("/Type/XRef{trailer}"), b"");
    } else {
        for (number, object) in objects {
            bytes.extend(format!("{number} 0 obj\n{object}\nendobj\n").bytes());
        }
        bytes.extend(format!("trailer\n<<{trailer}>>\n").bytes());
    }
    bytes.extend(b"startxref\n0\n%%EOF\n");
    bytes
}
