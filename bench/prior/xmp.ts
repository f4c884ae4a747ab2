// XMP packets: what documents, pictures and programs with pictures say of themselves. ISO 16684-1, and Adobe's own names beside it.

/** By prefix. */
const SPACES: Readonly<Record<string, string>> = {
  x: 'adobe:ns:meta/',
  rdf: 'http://www.w3.org/1999/02/22-rdf-syntax-ns#',
  dc: 'http://purl.org/dc/elements/1.1/',
  xmp: 'http://ns.adobe.com/xap/1.0/',
  xap: 'http://ns.adobe.com/xap/1.0/',
  xmpRights: 'http://ns.adobe.com/xap/1.0/rights/',
  xmpMM: 'http://ns.adobe.com/xap/1.0/mm/',
  xapMM: 'http://ns.adobe.com/xap/1.0/mm/',
  xmpBJ: 'http://ns.adobe.com/xap/1.0/bj/',
  xmpTPg: 'http://ns.adobe.com/xap/1.0/t/pg/',
  xmpG: 'http://ns.adobe.com/xap/1.0/g/',
  xmpGImg: 'http://ns.adobe.com/xap/1.0/g/img/',
  stRef: 'http://ns.adobe.com/xap/1.0/sType/ResourceRef#',
  stEvt: 'http://ns.adobe.com/xap/1.0/sType/ResourceEvent#',
  stVer: 'http://ns.adobe.com/xap/1.0/sType/Version#',
  stJob: 'http://ns.adobe.com/xap/1.0/sType/Job#',
  stDim: 'http://ns.adobe.com/xap/1.0/sType/Dimensions#',
  stFnt: 'http://ns.adobe.com/xap/1.0/sType/Font#',
  stMfs: 'http://ns.adobe.com/xap/1.0/sType/ManifestItem#',
  xmpDM: 'http://ns.adobe.com/xmp/1.0/DynamicMedia/',
  xmpidq: 'http://ns.adobe.com/xmp/Identifier/qual/1.0/',
  pdf: 'http://ns.adobe.com/pdf/1.3/',
  pdfx: 'http://ns.adobe.com/pdfx/1.3/',
  pdfaid: 'http://www.aiim.org/pdfa/ns/id/',
  photoshop: 'http://ns.adobe.com/photoshop/1.0/',
  illustrator: 'http://ns.adobe.com/illustrator/1.0/',
  crs: 'http://ns.adobe.com/camera-raw-settings/1.0/',
  aux: 'http://ns.adobe.com/exif/1.0/aux/',
  exif: 'http://ns.adobe.com/exif/1.0/',
  tiff: 'http://ns.adobe.com/tiff/1.0/',
  Iptc4xmpCore: 'http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/',
};
const DECLARATIONS = Object.entries(SPACES).map(([prefix, space]) => `xmlns:${prefix}="${space}"`);

const ATTRIBUTES =
  'rdf:about="" rdf:parseType="Resource" rdf:parseType="Literal" xmp:CreatorTool="Adobe xmp:CreateDate=" xmp:ModifyDate=" xmp:MetadataDate=" xmp:Rating=" xmpMM:InstanceID="xmp.iid: xmpMM:DocumentID="xmp.did: xmpMM:OriginalDocumentID="xmp.did: xmpMM:DocumentID="adobe:docid: stRef:instanceID="xmp.iid: stRef:documentID="xmp.did: stEvt:action="created" stEvt:action="saved" stEvt:action="converted" stEvt:action="derived" stEvt:instanceID="xmp.iid: stEvt:when=" stEvt:softwareAgent="Adobe stEvt:parameters="from stEvt:parameters="converted stEvt:changed="/" dc:format="image/png" dc:format="image/jpeg" dc:format="application/pdf" dc:format="application/vnd.adobe.photoshop" photoshop:ColorMode=" photoshop:ICCProfile=" photoshop:DateCreated=" tiff:Orientation=" tiff:XResolution=" tiff:YResolution=" tiff:ResolutionUnit=" tiff:ImageWidth=" tiff:ImageLength=" tiff:Make=" tiff:Model=" exif:ColorSpace=" exif:PixelXDimension=" exif:PixelYDimension=" exif:ExifVersion=" pdf:Producer=" xml:lang="x-default"'.split(
    ' ',
  );

const ELEMENTS =
  'x:xmpmeta rdf:RDF rdf:Description rdf:Seq rdf:Bag rdf:Alt rdf:li xmpMM:History xmpMM:DerivedFrom xmpMM:DocumentID xmpMM:InstanceID xmpMM:OriginalDocumentID xmpMM:Ingredients xmp:CreateDate xmp:ModifyDate xmp:MetadataDate xmp:CreatorTool xmp:Thumbnails xapMM:DocumentID dc:format dc:title dc:creator dc:description dc:rights dc:subject pdf:Producer pdf:Keywords photoshop:DocumentAncestors photoshop:ColorMode photoshop:ICCProfile tiff:Orientation exif:ColorSpace stEvt:action stEvt:instanceID stEvt:when stEvt:softwareAgent stEvt:changed stRef:instanceID stRef:documentID'.split(
    ' ',
  );
/** Adobe's writer indents, or has one blank in place of each line. */
const BETWEEN = ['', ' ', '\n', '\n ', '\n  ', '\n   ', '\n      ', '\r\n'];
const tags = ELEMENTS.flatMap((name) => [`<${name}>`, `</${name}>`, `<${name} `]);
const ends = ['Windows)"/>', 'Macintosh)"/>', '="/"/>', '="/">', ...tags.filter((tag) => tag.startsWith('</'))];
const attributes = [...DECLARATIONS, ...ATTRIBUTES];
const befores = [
  '<rdf:Description ',
  '<rdf:li ',
  '<rdf:RDF ',
  '\n    ',
  '" ',
  '/" ',
  '#" ',
  '00" ',
  '(Windows)" ',
  '(Macintosh)" ',
];

/** What lies where two of them meet: as many bytes of each as a window has. */
function meetings(texts: readonly string[], between: readonly string[], next: readonly string[]): string[] {
  const [lasts, firsts] = [texts.map((text) => text.slice(-6)), next.map((text) => text.slice(0, 6))];
  const met = lasts.flatMap((last) => between.flatMap((space) => firsts.map((first) => `${last}${space}${first}`)));
  return [...new Set(met)];
}

export const xmpTexts: readonly string[] = [
  ...['"\xef\xbb\xbf"', '""', "'\xef\xbb\xbf'", "''"].flatMap((mark) => [
    `<?xpacket begin=${mark} id="W5M0MpCehiHzreSzNTczkc9d"?>`,
    `<?xpacket begin=${mark} id='W5M0MpCehiHzreSzNTczkc9d'?>`,
  ]),
  '<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Adobe XMP Core ',
  "<x:xmpmeta xmlns:x='adobe:ns:meta/' x:xmptk='",
  '<?xpacket end="w"?>',
  '<?xpacket end="r"?>',
  ...meetings(['c9d"?>', "c9d'?>"], BETWEEN, ['<x:xmpmeta']),
  ...meetings(['</x:xmpmeta>'], BETWEEN, ['<?xpacket']),
  ...attributes,
  ...tags,
  ...meetings(befores, [''], attributes),
  ...meetings(tags, [''], DECLARATIONS),
  ...meetings(ATTRIBUTES, ['"'], ['/>', ' />', '>']),
  ...meetings(DECLARATIONS, [' ', '>'], [...attributes, ...tags]),
  ...meetings(ends, BETWEEN, tags),
];
