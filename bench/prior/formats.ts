// What files of a kind may have because their format or the tools of their makers say so, written down by hand: no set of documents has all of it.
import { programTexts, wide } from './programs.js';
import { xmpTexts } from './xmp.js';

/** Of one of libclamav's targets. Characters are bytes. */
export interface FormatTexts {
  readonly target: number;
  readonly texts: readonly string[];
  /** What whole layers begin with. */
  readonly beginnings: readonly string[];
}

const [ANY, PROGRAM, OLE2, HTML, MAIL, PICTURE, PDF] = [0, 1, 2, 3, 4, 5, 10];

/** Each with each, itself included. */
function pairs(parts: readonly string[], between: readonly string[]): string[] {
  return parts.flatMap((one) => parts.flatMap((other) => between.map((text) => `${one}${text}${other}`)));
}

function each(parts: readonly string[], before: string, behind: string): string[] {
  return parts.map((part) => `${before}${part}${behind}`);
}

/** In front of a program: what DOS does with it, by Microsoft, Borland, Watcom and others. https://learn.microsoft.com/windows/win32/debug/pe-format */
const MICROSOFT_STUB = '\x0e\x1f\xba\x0e\x00\xb4\x09\xcd\x21\xb8\x01\x4c\xcd\x21';
const BORLAND_STUB = '\xba\x10\x00\x0e\x1f\xb4\x09\xcd\x21\xb8\x01\x4c\xcd\x21\x90\x90';
const stubs = [
  `${MICROSOFT_STUB}This program cannot be run in DOS mode.\r\r\n$\0\0\0\0\0\0\0`,
  `${BORLAND_STUB}This program must be run under Win32\r\n$7\0\0\0\0\0`,
  `${BORLAND_STUB}This program must be run under Win64\r\n$7\0\0\0\0\0`,
  `${BORLAND_STUB}This program must be run under Microsoft Windows.\r\n$`,
  'This program requires Microsoft Windows.\r\n$',
  'This program requires Win32\r\n$',
  'This is a Windows NT windowed dynamic link library\r\n$',
  'This is a Windows NT character-mode executable\r\n$',
  'MZP\0\x02\0\0\0\x04\0\x0f\0\xff\xff\0\0\xb8\0\0\0\0\0\0\0\x40\0\x1a\0\0\0\0\0',
];

/** Of the C run-time library by Microsoft. https://learn.microsoft.com/cpp/error-messages/tool-errors/c-runtime-error-r6002 and its neighbours */
const INDICATES_A_BUG = 'This indicates a bug in your application.';
const ASK_SUPPORT = "Please contact the application's support team for more information.\r\n";
const runTimeErrors = [
  'Microsoft Visual C++ Runtime Library',
  'Runtime Error!\n\nProgram: ',
  'runtime error ',
  '<program name unknown>',
  'DOMAIN error\r\n',
  'SING error\r\n',
  'TLOSS error\r\n',
  'R6002\r\n- floating point not loaded\r\n',
  'R6002\r\n- floating point support not loaded\r\n',
  'R6008\r\n- not enough space for arguments\r\n',
  'R6009\r\n- not enough space for environment\r\n',
  'R6010\r\n- abort() has been called\r\n',
  'R6016\r\n- not enough space for thread data\r\n',
  'R6017\r\n- unexpected multithread lock error\r\n',
  'R6018\r\n- unexpected heap error\r\n',
  'R6019\r\n- unable to open console device\r\n',
  'R6024\r\n- not enough space for _onexit/atexit table\r\n',
  'R6025\r\n- pure virtual function call\r\n',
  'R6026\r\n- not enough space for stdio initialization\r\n',
  'R6027\r\n- not enough space for lowio initialization\r\n',
  'R6028\r\n- unable to initialize heap\r\n',
  `R6029\r\n- This application cannot run using the active version of the Microsoft .NET Runtime\n${ASK_SUPPORT}`,
  'R6030\r\n- CRT not initialized\r\n',
  `R6031\r\n- Attempt to initialize the CRT more than once.\n${INDICATES_A_BUG}\r\n`,
  'R6032\r\n- not enough space for locale information\r\n',
  'R6033\r\n- Attempt to use MSIL code from this assembly during native code initialization\n' +
    `${INDICATES_A_BUG} It is most likely the result of calling an MSIL-compiled (/clr) function from a native constructor or from DllMain.\r\n`,
  `R6034\r\nAn application has made an attempt to load the C runtime library incorrectly.\n${ASK_SUPPORT}`,
  `This application has requested the Runtime to terminate it in an unusual way.\n${ASK_SUPPORT}`,
];

/** https://learn.microsoft.com/windows/win32/sbscs/application-manifests */
const ASSEMBLY_NAMES = [
  'Microsoft.Windows.Common-Controls',
  'Microsoft.Windows.GdiPlus',
  'Microsoft.VC80.CRT',
  'Microsoft.VC80.MFC',
  'Microsoft.VC80.ATL',
  'Microsoft.VC90.CRT',
  'Microsoft.VC90.MFC',
  'Microsoft.VC90.DebugCRT',
];
const identityAttributes = [
  'type=win32',
  ...each(ASSEMBLY_NAMES, 'name=', ''),
  ...['1.0.0.0', '6.0.0.0', '1.0.0', '8.0.50727.762', '8.0.50727.4053', '9.0.21022.8', '9.0.30729.4148'].map(
    (text) => `version=${text}`,
  ),
  ...each(['x86', 'X86', 'amd64', 'ia64', 'arm', 'arm64', '*', 'msil'], 'processorArchitecture=', ''),
  ...each(['6595b64144ccf1df', '1fc8b3b9a1e18e3b'], 'publicKeyToken=', ''),
  'language=*',
  'language=neutral',
];
const SYSTEMS = [
  'e2011457-1546-43c5-a5fe-008deee3d3f0',
  '35138b9a-5d96-4fbd-8e2d-a2440225f93a',
  '4a2f28e3-53b9-4441-ba9c-d69d4a4a6e38',
  '1f676c76-80e1-4239-95bb-83d0f6d0da78',
  '8e0f7a12-bfb3-4fe8-b9a5-48fd50a15a9a',
];
const SCHEMAS = 'urn:schemas-microsoft-com:';
const settings = each(
  ['2005', '2011', '2016', '2017', '2019', '2020'],
  'xmlns=http://schemas.microsoft.com/SMI/',
  '/WindowsSettings',
);
const SETTINGS = ['dpiAware', 'dpiAwareness', 'longPathAware', 'activeCodePage', 'heapType', 'gdiScaling'];
const VALUES = [
  ...[
    'true',
    'True',
    'false',
    'true/pm',
    'True/PM',
    'per monitor',
    'PerMonitor',
    'PerMonitorV2',
    'PerMonitorV2, PerMonitor',
  ],
  ...['PerMonitorV2,PerMonitor', 'permonitorv2,permonitor', 'system', 'unaware', 'UTF-8', 'SegmentHeap'],
];
const manifestTags = [
  '<?xml version=1.0 encoding=UTF-8 standalone=yes?>',
  '<?xml version=1.0 encoding=utf-8?>',
  ...each(['asm.v1 manifestVersion=1.0', 'asm.v1', 'asm.v2', 'asm.v3'], `<assembly xmlns=${SCHEMAS}`, '>'),
  `<assembly manifestVersion=1.0 xmlns=${SCHEMAS}asm.v1>`,
  ...each(['asm.v2', 'asm.v3'], `<trustInfo xmlns=${SCHEMAS}`, '>'),
  ...each(['asm.v2', 'asm.v3'], `<asmv3:application xmlns:asmv3=${SCHEMAS}`, '>'),
  ...each(['asm.v2', 'asm.v3'], `<requestedPrivileges xmlns=${SCHEMAS}`, '>'),
  `<compatibility xmlns=${SCHEMAS}compatibility.v1>`,
  `<ms_asmv2:trustInfo xmlns:ms_asmv2=${SCHEMAS}asm.v2>`,
  ...['asInvoker', 'highestAvailable', 'requireAdministrator'].flatMap((level) =>
    ['true', 'false'].flatMap((access) =>
      ['/>', ' />', '></requestedExecutionLevel>'].map(
        (end) => `<requestedExecutionLevel level=${level} uiAccess=${access}${end}`,
      ),
    ),
  ),
  ...SYSTEMS.flatMap((id) => ['/>', ' />', '></supportedOS>'].map((end) => `<supportedOS Id={${id}}${end}`)),
  ...settings.flatMap((schema) => SETTINGS.map((name) => `<${name} ${schema}>true</${name}>`)),
  ...'assembly dependency dependentAssembly trustInfo security requestedPrivileges compatibility application windowsSettings description file'
    .split(' ')
    .flatMap((name) => [`<${name}>`, `</${name}>`]),
];
const SPACES = ['', ' ', '\n  ', '\r\n  ', '\r\n\t', '\n    ', '\r\n    ', '\n      ', '\r\n        '];

/** `name=value`, with quotes of either kind. */
function quoted(texts: readonly string[]): string[] {
  return ['"', "'"].flatMap((quote) =>
    texts.map((text) => text.replaceAll(/=([^\s<>]+?)(?=\s|\/?>|\?>|$)/g, `=${quote}$1${quote}`)),
  );
}

const manifests = [
  ...SETTINGS.flatMap((name) =>
    ['/WindowsSettings">', "/WindowsSettings'>", `<${name}>`].flatMap((before) =>
      VALUES.map((value) => `${before}${value}</${name}>`),
    ),
  ),
  ...quoted(pairs(identityAttributes, SPACES.slice(1))),
  ...quoted(
    identityAttributes.flatMap((one) => [
      `<assemblyIdentity ${one}`,
      `<assemblyIdentity\r\n    ${one}`,
      `<assemblyIdentity\n    ${one}`,
    ]),
  ),
  ...quoted(
    identityAttributes.flatMap((one) =>
      ['/>', ' />', '></assemblyIdentity>'].flatMap((end) =>
        SPACES.map((space) => `${one}${end}${space}</dependentAssembly>`),
      ),
    ),
  ),
  ...quoted(pairs(manifestTags, ['', '\r\n  ', '\n  ', '\r\n\t'])),
];

/** Signed programs have the certificates of who signed, and these say where their authority is. RFC 5280; authorities of Windows' own list. */
const authorities: Readonly<Record<string, readonly string[]>> = {
  'certum.pl':
    'subca.ocsp-certum.com ocsp.certum.pl crl.certum.pl/ca.crl crl.certum.pl/ctnca.crl crl.certum.pl/ctnca2.crl repository.certum.pl/ca.cer repository.certum.pl/ctnca.cer www.certum.pl/CPS'.split(
      ' ',
    ),
  'sectigo.com':
    'ocsp.sectigo.com crl.sectigo.com/SectigoPublicCodeSigningCAR36.crl crt.sectigo.com/SectigoPublicCodeSigningCAR36.crt crt.sectigo.com/SectigoRSATimeStampingCA.crt crl.sectigo.com/SectigoRSATimeStampingCA.crl sectigo.com/CPS'.split(
      ' ',
    ),
  'comodoca.com':
    'ocsp.comodoca.com crl.comodoca.com/COMODORSACodeSigningCA.crl crt.comodoca.com/COMODORSACodeSigningCA.crt crl.comodoca.com/AAACertificateServices.crl secure.comodo.net/CPS secure.comodo.com/CPS'.split(
      ' ',
    ),
  'usertrust.com':
    'ocsp.usertrust.com crl.usertrust.com/USERTrustRSACertificationAuthority.crl crt.usertrust.com/USERTrustRSAAddTrustCA.crt crl.usertrust.com/UTN-USERFirst-Object.crl crl.usertrust.com/AddTrustExternalCARoot.crl www.usertrust.com'.split(
      ' ',
    ),
  'digicert.com':
    'ocsp.digicert.com cacerts.digicert.com/DigiCertAssuredIDRootCA.crt crl3.digicert.com/DigiCertAssuredIDRootCA.crl crl4.digicert.com/sha2-assured-cs-g1.crl cacerts.digicert.com/DigiCertTrustedRootG4.crt www.digicert.com/CPS www.digicert.com/ssl-cps-repository.htm'.split(
      ' ',
    ),
  'verisign.com':
    'ocsp.verisign.com crl.verisign.com/pca3.crl crl.verisign.com/tss-ca.crl csc3-2010-crl.verisign.com/CSC3-2010.crl csc3-2010-aia.verisign.com/CSC3-2010.cer www.verisign.com/rpa www.verisign.com/cps logo.verisign.com/vslogo.gif'.split(
      ' ',
    ),
  'thawte.com':
    'ocsp.thawte.com crl.thawte.com/ThawtePCA.crl crl.thawte.com/ThawteTimestampingCA.crl cs-g2-crl.thawte.com/ThawteCSG2.crl'.split(
      ' ',
    ),
  'symantec.com':
    'ts-ocsp.ws.symantec.com ts-aia.ws.symantec.com/tss-ca-g2.cer ts-crl.ws.symantec.com/tss-ca-g2.crl sv.symcb.com/sv.crl sv.symcd.com sv.symcb.com/sv.crt d.symcb.com/cps d.symcb.com/rpa'.split(
      ' ',
    ),
  'globalsign.com':
    'ocsp.globalsign.com/rootr1 ocsp2.globalsign.com/gscodesigng2 crl.globalsign.com/root.crl crl.globalsign.net/root.crl secure.globalsign.com/cacert/gscodesigng2ocsp.crt www.globalsign.com/repository/'.split(
      ' ',
    ),
  'godaddy.com':
    'ocsp.godaddy.com crl.godaddy.com/gdroot.crl certificates.godaddy.com/repository certs.godaddy.com/repository/'.split(
      ' ',
    ),
  'entrust.net':
    'ocsp.entrust.net crl.entrust.net/2048ca.crl aia.entrust.net/ovcs1-chain256.cer www.entrust.net/rpa www.entrust.net/CPS'.split(
      ' ',
    ),
  'startssl.com':
    'ocsp.startssl.com/sub/class2/code/ca crl.startssl.com/sfsca.crl aia.startssl.com/certs/ca.crt www.startssl.com/policy.pdf'.split(
      ' ',
    ),
  'microsoft.com':
    'www.microsoft.com/pki/certs/MicrosoftRootCert.crt crl.microsoft.com/pki/crl/products/microsoftrootcert.crl www.microsoft.com/pkiops/certs/ www.microsoft.com/pkiops/crl/ www.microsoft.com/PKI/docs/CPS/default.htm'.split(
      ' ',
    ),
};
/** The length stands in front of an address, and what comes next begins with one of a few bytes. */
const certificates = Object.values(authorities).flatMap((places) =>
  places.flatMap((place) =>
    ['http', 'https'].flatMap((scheme) =>
      ['0', '0\x0b', '0\x0c', '0\x06', '0\x81', '0\x82', '\xa0', '\0'].map((next) => {
        const address = `${scheme}://${place}`;
        return `${String.fromCharCode(address.length)}${address}${next}`;
      }),
    ),
  ),
);

/** [MS-VBAL] and [MS-OVBA]: what each module begins with, and the words of the language. */
const moduleNames = [
  'Module1',
  'Module2',
  'Modul1',
  'ThisWorkbook',
  'ThisDocument',
  'Sheet1',
  'Sheet2',
  'Tabelle1',
  'Class1',
  'UserForm1',
  'NewMacros',
];
const flags = ['GlobalNameSpace', 'Creatable', 'PredeclaredId', 'Exposed', 'TemplateDerived', 'Customizable'];
const modules = [
  ...moduleNames.map((name) => `Attribute VB_Name = "${name}"\r\n`),
  ...pairs(
    flags.flatMap((flag) => ['True', 'False'].map((value) => `Attribute VB_${flag} = ${value}\r\n`)),
    [''],
  ),
  ...each(
    ['00020819', '00020820', '00020906', 'FCFB3D2A'],
    '"\r\nAttribute VB_Base = "0{',
    '-0000-0000-C000-000000000046}"\r\nAttribute VB_GlobalNameSpace',
  ),
  ...each(moduleNames, 'Attribute VB_Name = "', '"\r\nAttribute VB_Base = "0{'),
  ...each(moduleNames, 'Attribute VB_Name = "', '"\r\nSub '),
  ...each(
    ['Option Explicit\r\n', 'Private Sub ', 'Public Sub ', 'Sub ', 'Function '],
    'Attribute VB_Customizable = True\r\n',
    '',
  ),
];
const statements = [
  'On Error Resume Next',
  'On Error GoTo 0',
  'On Error GoTo ',
  'Option Explicit',
  'Option Base 1',
  'End Sub',
  'End Function',
  'End If',
  'End With',
  'End Select',
  'End Property',
  'End Type',
  'Exit Sub',
  'Exit Function',
  'Exit For',
  'Loop',
  'Wend',
  'Else',
  'Debug.Print ',
  'MsgBox "',
  'Private Sub Workbook_Open()',
  'Private Sub Document_Open()',
  'Sub Auto_Open()',
  'Sub AutoOpen()',
  'Application.ScreenUpdating = False',
  'Application.DisplayAlerts = False',
  'Application.EnableEvents = True',
  'ActiveWorkbook.Save',
  'ActiveDocument.Save',
  'ActiveSheet.Range("A1").Select',
  'Selection.',
  'Dim i As Integer',
  'Dim s As String',
  'Dim o As Object',
  'Dim n As Long',
  'Dim b As Boolean',
  'Dim v As Variant',
  'Set o = CreateObject("',
  'Set o = Nothing',
  'For i = 1 To ',
  'For Each ',
  'Next i',
  'Do While ',
  'Select Case ',
  'Case Else',
  'ReDim Preserve ',
  'Shell "',
  'Shell (',
  'x = Shell("',
  'If Err.Number <> 0 Then',
  ...each(['-1', '0', '1', '""', 'True', 'False', 'Nothing', 'vbYes', 'vbOK'], 'If i = ', ' Then'),
  ...each(['-1', '0', '1', '""', 'True', 'False', 'vbYes'], 'If i <> ', ' Then'),
];
const functions =
  'CLng CInt CStr CDbl CBool Chr ChrW Asc Mid Left Right Len InStr UBound LBound Replace Split Join Trim UCase LCase Array Val Hex'.split(
    ' ',
  );
const visualBasic = [
  ...modules,
  ...pairs(statements, ['\r\n', '\r\n    ', '\r\n\r\n', '\r\n\t']),
  ...functions.flatMap((name) => [` = ${name}(`, `(${name}(`, ` & ${name}(`, ` + ${name}(`]),
];

/** As links and shortcuts in documents have them. */
const wideAddresses = ['http://', 'https://', 'ftp://', 'file:///', 'mailto:', 'http://www.', 'https://www.'].map(wide);

/** [MS-XLS] 2.4.21: BOF, of workbooks and sheets, as Excel 97 and later and other writers have it; in small letters [MS-DOC]'s and others' streams have none. */
const bof = ['\x05', '\x10', '\x20', '\x40'].map((kind) => `\x09\x08\x10\0\0\x06${kind}\0`);
const olderBof = ['\x05', '\x10'].map((kind) => `\x09\x08\x08\0\0\x05${kind}\0`);

/** ISO 32000: names of types and keys; actions of links. */
const pdfNames =
  'Type Subtype Page Pages Catalog Annot Annots Widget Link AcroForm Fields Action URI GoTo GoToR Launch Named JavaScript JS OpenAction AA Names Dests Outlines Font FontDescriptor FontFile FontFile2 FontFile3 XObject Image Form Filter FlateDecode DCTDecode ASCIIHexDecode ASCII85Decode LZWDecode RunLengthDecode CCITTFaxDecode JBIG2Decode JPXDecode Encrypt Length Kids Parent Count MediaBox CropBox Resources ProcSet Contents Rotate Border Rect Dest Metadata XML Producer Creator CreationDate ModDate Author Title Subject Keywords Info Root Size Prev Index ObjStm XRef EmbeddedFile EmbeddedFiles Filespec RichMedia Text Popup FreeText Stamp Tx Btn Ch Sig SubmitForm ResetForm Hide Encoding WinAnsiEncoding Identity-H ToUnicode BaseFont StructTreeRoot MarkInfo Lang ViewerPreferences PageMode PageLayout UseOutlines ExtGState ColorSpace DeviceRGB DeviceGray DeviceCMYK ICCBased Pattern Shading'.split(
    ' ',
  );
const pdfs = [
  ...pairs(each(pdfNames, '/', ''), ['', ' ', '\n', '\r\n', '\r', ' <<', '<<', ' [', '[']),
  ...['/URI', '/URI ', '/S /URI /URI ', '/S/URI/URI', '/Type/Action/S/URI/URI'].flatMap((key) =>
    ['mailto:', 'http://', 'https://', 'http://www.', 'https://www.'].map((scheme) => `${key}(${scheme}`),
  ),
];

/** RFC 5322, RFC 2045 to 2049, RFC 2183. */
const parts = [
  'text/plain',
  'text/html',
  'multipart/mixed',
  'multipart/alternative',
  'multipart/related',
  'application/octet-stream',
  'application/pdf',
];
const partTypes = [
  ...parts,
  'application/zip',
  'image/jpeg',
  'image/png',
  'image/gif',
  'message/rfc822',
  'message/delivery-status',
  'text/calendar',
];
const headers = [
  ...'Return-Path Received From To Cc Subject Date Message-ID Message-Id In-Reply-To References Reply-To MIME-Version Content-Type Content-Transfer-Encoding Content-Disposition Content-ID X-Mailer'
    .split(' ')
    .flatMap((name) => [`\n${name}: `, `\r\n${name}: `]),
  ...partTypes.flatMap((type) => [`Content-Type: ${type};`, `Content-Type: ${type}\r\n`, `Content-Type: ${type}\n`]),
  ...parts.flatMap((type) => each(['charset=', 'boundary=', 'name='], `Content-Type: ${type};\n\t`, '"')),
  ...parts.flatMap((type) =>
    each(['charset="utf-8"', 'charset=us-ascii', 'charset=iso-8859-1', 'boundary="'], `Content-Type: ${type}; `, ''),
  ),
  ...each(['7bit', '8bit', 'base64', 'quoted-printable', 'binary'], 'Content-Transfer-Encoding: ', '\r\n'),
  ...each(['attachment; filename="', 'inline; filename="', 'attachment;\n filename="'], 'Content-Disposition: ', ''),
];

/** https://html.spec.whatwg.org/multipage/indices.html */
const tags =
  'html head title meta link style script body div span p a img table tr td th thead tbody tfoot ul ol li dl dt dd form input button select option textarea label fieldset legend iframe object embed param applet h1 h2 h3 h4 h5 h6 br hr b i u em strong font center pre code blockquote noscript nav header footer main section article aside svg path video audio source canvas frameset frame map area'.split(
    ' ',
  );
const attributes =
  'id class style href src name type value action method content http-equiv rel width height alt title onclick onload onsubmit target lang dir align border bgcolor color size face data role for colspan rowspan cellpadding cellspacing charset property'.split(
    ' ',
  );
const pages = [
  ...tags.flatMap((tag) =>
    attributes.flatMap((name) => [`<${tag} ${name}="`, `<${tag} ${name}='`, `<${tag} ${name}=`]),
  ),
  ...tags.flatMap((tag) => tags.map((other) => `</${tag}><${other}>`)),
  ...pairs(each(attributes, ' ', '="'), ['" ', '"']),
];

export const formatTexts: readonly FormatTexts[] = [
  { target: ANY, texts: [...bof, ...olderBof], beginnings: ['\x09\x08\x10\0', '\x09\x08\x08\0', 'Attr'] },
  {
    target: PROGRAM,
    texts: [...stubs, ...runTimeErrors, ...manifests, ...certificates, ...programTexts],
    beginnings: [],
  },
  { target: OLE2, texts: [...visualBasic, ...wideAddresses], beginnings: ['Attr'] },
  { target: HTML, texts: pages, beginnings: [] },
  { target: MAIL, texts: headers, beginnings: [] },
  { target: PDF, texts: pdfs, beginnings: [] },
  ...[ANY, PROGRAM, OLE2, PICTURE, PDF].map((target) => ({ target, texts: xmpTexts, beginnings: [] })),
];
