// What programs for Windows have because Windows, their compilers or their signers say so, written down by hand.
import { readFileSync } from 'node:fs';
import { sourcePath } from '../paths.js';

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}

/** As Windows has texts: each character is followed by a zero. */
export function wide(text: string): string {
  return Array.from(text, (character) => `${character}\0`).join('');
}

/** What tables of imports name. A zero ends each. */
function functions(): string[] {
  const lines = readFileSync(sourcePath('prior/functions.txt'), 'latin1').split('\n');
  const known = lines.filter((line) => !line.startsWith('#'));
  return known.flatMap((line) => words(line).slice(1)).map((name) => `${name}\0`);
}

/** https://learn.microsoft.com/windows/win32/api: those that programs load. */
const LIBRARIES = words(`
  advapi32 avicap32 bcrypt cabinet comctl32 comdlg32 crypt32 cryptui dbghelp ddraw dnsapi dsound dwmapi gdi32 gdiplus glu32
  imagehlp imm32 iphlpapi kernel32 mapi32 mpr mscoree msacm32 msctf msi msimg32 msvcrt msvfw32 netapi32 ntdll odbc32 ole32 oleacc
  oleaut32 oledlg olepro32 opengl32 powrprof propsys psapi rasapi32 rpcrt4 secur32 sensapi setupapi sfc shell32 shfolder
  shlwapi tapi32 urlmon user32 userenv usp10 uxtheme version wininet winmm winhttp winspool wintrust wldap32 ws2_32 wsock32
  wtsapi32 msvbvm60 mfc42 mfc71 mfc80 mfc90 mfc100 msvcp60 msvcp71 msvcp80 msvcp90 msvcp100 msvcr71 msvcr80 msvcr90 msvcr100
`);
const libraries = LIBRARIES.flatMap((name) =>
  ['.dll', '.DLL'].flatMap((end) => [`${name}${end}\0`, `${name.toUpperCase()}${end}\0`]),
);

/** Where Windows keeps settings; `_` is a blank. https://learn.microsoft.com/windows/win32/shell/fa-progids and what lies beside it */
const registry = [
  ...words(`
    AppEvents\\Schemes\\Apps\\ Control_Panel\\Desktop Software\\Classes\\ Software\\Clients\\ Software\\Policies\\Microsoft\\ \\shell\\open\\command
    \\shell\\print\\command \\DefaultIcon \\OpenWithProgids \\OpenWithList \\ShellEx\\ContextMenuHandlers \\InprocServer32 \\LocalServer32 \\ProgID
    \\TypeLib \\CLSID\\ \\Implemented_Categories \\Insertable \\VersionIndependentProgID System\\CurrentControlSet\\Services\\
    System\\CurrentControlSet\\Control\\Keyboard_Layouts\\
  `),
  ...words(
    'Run RunOnce RunServices Uninstall Explorer App_Paths Internet_Settings Themes Fonts Setup Policies\\Explorer Policies\\Network Policies\\Comdlg32 Policies\\System Explorer\\Shell_Folders Explorer\\User_Shell_Folders Explorer\\Advanced',
  ).flatMap((key) =>
    ['Windows', 'Windows_NT'].map((system) => `Software\\Microsoft\\${system}\\CurrentVersion\\${key}`),
  ),
].map((path) => path.replaceAll('_', ' '));

const BYTE_VALUES = 256;

/** With any byte between them. */
function anyBetween(before: string, behind: string): string[] {
  const bytes = Array.from({ length: BYTE_VALUES }, (_, byte) => String.fromCharCode(byte));
  return bytes.map((byte) => `${code(before)}${byte}${code(behind)}`);
}

function code(hex: string): string {
  return Buffer.from(hex.replaceAll(' ', ''), 'hex').toString('latin1');
}

/**
 * Code of Microsoft's C library, of which the sources come with the compiler: whether an exception is one of C++ (unhandld.cpp), with jumps of any
 * length; the table of open files (lseek.c, ioinit.c); `_invalid_parameter(NULL, NULL, NULL, 0, 0)`, which all that check their parameters call.
 */
const NUMBERS_OF_CXX = ['20', '21', '22'].map((version) => `${version} 05 93 19`);
const cLibrary = [
  ...['75', '74'].flatMap((jump) => anyBetween(`8b 45 08 8b 00 81 38 63 73 6d e0 ${jump}`, '83 78 10 03 75')),
  ...anyBetween('83 78 10 03 75', '8b 40 14 3d 20 05 93 19'),
  ...NUMBERS_OF_CXX.flatMap((number) =>
    [...NUMBERS_OF_CXX, '00 40 99 01'].flatMap((next) => anyBetween(`3d ${number} 74`, `3d ${next}`)),
  ),
  ...['e0', 'e1', 'e2', 'e3', 'e6', 'e7'].flatMap((register) =>
    ['8d 44 30 04', '8d 44 08 04', '8d 44 38 04', '03 f0', '8d 34 30'].flatMap((then) =>
      ['80 20 fd', '80 08 01', '80 60 04 fd', 'f6 00 01', '80 38 00'].map((last) =>
        code(`83 ${register} 1f c1 ${register} 06 ${then} ${last}`),
      ),
    ),
  ),
  ...['80 20 fd', '80 08 01'].flatMap((flag) =>
    ['8b 45 f8 8b 55 fc', '8b 45 f8 5f 5e', '8b c7', '8b c3', '8b c6', '83 c8 ff', '33 c0'].map((then) =>
      code(`8d 44 30 04 ${flag} ${then}`),
    ),
  ),
  ...[
    ['c0', '50'],
    ['db', '53'],
    ['f6', '56'],
    ['ff', '57'],
  ].flatMap(([zero = '', push = '']) =>
    ['e8', 'ff 15', 'c7 00 16 00 00 00 e8', '6a 00', '68', '89'].map((then) =>
      code(`33 ${zero} ${`${push} `.repeat(4)} ${then}`),
    ),
  ),
];

/** What Delphi's compiler makes of `try`, `except` and `finally`, and of the ends of procedures with them. */
const DELPHI_NEXT = [
  ...['8b 45 fc', '8b 45 f8', '8b 55 fc', '8d 45 fc', '8d 55 fc', '8d 45 f8', '8d 55 f8', '83 7d fc 00', '83 7d f8 00'],
  ...[
    '33 d2',
    '33 c0',
    '33 c9',
    '33 db',
    '8b c3',
    '8b c6',
    '8b c7',
    '8b d3',
    '8b d6',
    'b2 01 a1',
    '6a 00',
    'e8',
    'a1',
    '68',
  ],
];
const ROOTS = ['00', '01', '02', '03'].map((key) => `${key} 00 00 80`);
const delphiCode = [
  ...DELPHI_NEXT.flatMap((next) => [code(`64 ff 30 64 89 20 ${next}`), code(`33 c0 5a 59 59 64 89 10 ${next}`)]),
  ...ROOTS.flatMap((root) => [
    code(`64 ff 30 64 89 20 ba ${root}`),
    ...DELPHI_NEXT.map((next) => code(`ba ${root} ${next}`)),
    ...DELPHI_NEXT.map((next) => code(`b8 ${root} ${next}`)),
  ]),
  ...['eb', 'e9', '68'].map((jump) => code(`33 c0 5a 59 59 64 89 10 ${jump}`)),
  ...['f8', 'f0', 'e8', 'eb'].flatMap((back) =>
    ['', '5b', '5e 5b', '5f 5e 5b'].flatMap((saved) =>
      ['8b e5', '59', '59 59', '83 c4'].map((locals) => code(`eb ${back} ${saved} ${locals} 5d c3`)),
    ),
  ),
];

/** Units and classes of its library. https://docwiki.embarcadero.com/Libraries/en/Main_Page */
const UNITS = words(`
  System SysInit SysUtils SysConst Classes TypInfo RTLConsts Consts Types Variants VarUtils Math StrUtils Character WideStrUtils Contnrs IniFiles
  Registry Windows Messages ActiveX ShellAPI CommCtrl CommDlg RichEdit MultiMon UxTheme Themes DwmApi FlatSB WinSpool ShlObj Graphics Controls
  Forms StdCtrls ExtCtrls ComCtrls Dialogs Dlgs Menus ImgList Buttons ActnList StdActns ToolWin Clipbrd Printers Mask MaskUtils HelpIntfs
  ComObj ComConst AxCtrls OleCtrls CheckLst Grids Outline FileCtrl ToolWin ScktComp DateUtils SyncObjs Rtti Generics.Collections
`);
const CLASSES = words(`
  TObject TInterfacedObject TPersistent TComponent TList TThreadList TStrings TStringList TStream THandleStream TFileStream TCustomMemoryStream
  TMemoryStream TStringStream TResourceStream TFiler TReader TWriter TParser TThread TCollection TCollectionItem TOwnedCollection TBits
  TBasicAction TBasicActionLink TDataModule TControl TWinControl TGraphicControl TCustomControl THintWindow TDragObject TDragControlObject
  TDockZone TDockTree TMouse TCustomImageList TImageList TChangeLink TControlCanvas TControlActionLink TWinControlActionLink TSizeConstraints
  TMargins TPadding TFont TPen TBrush TCanvas TGraphic TPicture TMetafile TMetafileCanvas TBitmap TBitmapCanvas TIcon TBitmapImage TIconImage
  TSharedImage TWICImage TScrollBar TScrollingWinControl TScrollBox TControlScrollBar TWindowState TCustomForm TForm TCustomFrame TFrame TCustomDockForm
  TScreen TApplication TCustomActiveForm TPopupForm TButton TCustomButton TButtonControl TButtonActionLink TCheckBox TCustomCheckBox TRadioButton
  TLabel TCustomLabel TEdit TCustomEdit TMemo TCustomMemo TComboBox TCustomComboBox TCustomCombo TListBox TCustomListBox TGroupBox TCustomGroupBox
  TStaticText TCustomStaticText TCustomListControl TCustomMultiSelectListControl TCustomComboBoxStrings TListBoxStrings TPanel TCustomPanel TShape
  TImage TBevel TTimer TPaintBox TRadioGroup TCustomRadioGroup TSplitter TNotebook TPage THeader TLabeledEdit TColorBox TTrayIcon TCategoryPanel
  TTabControl TCustomTabControl TPageControl TTabSheet TStatusBar TCustomStatusBar TStatusPanel TStatusPanels THeaderControl THeaderSection TTreeView
  TCustomTreeView TTreeNode TTreeNodes TListView TCustomListView TListItem TListItems TListColumn TListColumns TTrackBar TProgressBar TRichEdit
  TCustomRichEdit TTextAttributes TParaAttributes TUpDown TCustomUpDown THotKey TCustomHotKey TToolBar TToolButton TToolWindow TCoolBar TCoolBand
  TAnimate TMonthCalendar TDateTimePicker TPageScroller TCommonDialog TOpenDialog TSaveDialog TFontDialog TColorDialog TPrintDialog
  TPrinterSetupDialog TFindDialog TReplaceDialog TPageSetupDialog TCustomFileOpenDialog TFileOpenDialog TFileSaveDialog TTaskDialog TMenu TMainMenu
  TPopupMenu TMenuItem TMenuActionLink TPopupList TSpeedButton TBitBtn TContainedAction TCustomActionList TActionList TCustomAction TAction
  TActionLink TShortCutList TClipboard TPrinter TRegistry TRegIniFile TRegistryIniFile TCustomIniFile TIniFile TMemIniFile TStringHash THashedStringList
  TObjectList TComponentList TStack TQueue TObjectStack TObjectQueue TClassList TOrderedList TCriticalSection TEvent TSynchroObject THandleObject
  TMultiReadExclusiveWriteSynchronizer TSimpleRWSync TCustomVariantType TInvokeableVariantType TThemeServices TUxThemeStyle TCustomStyleServices
  TStyleHook TStyleManager TEncoding TMBCSEncoding TUTF7Encoding TUTF8Encoding TUnicodeEncoding TBigEndianUnicodeEncoding TStreamReader TStreamWriter
  Exception EAbort EOutOfMemory EInOutError EExternal EExternalException EIntError EDivByZero ERangeError EIntOverflow EMathError EInvalidOp
  EZeroDivide EOverflow EUnderflow EInvalidPointer EInvalidCast EConvertError EAccessViolation EPrivilege EStackOverflow EControlC EVariantError
  EAssertionFailed EAbstractError EIntfCastError EOSError ESafecallException EHeapException EPropReadOnly EPropWriteOnly EStreamError EFileStreamError
  EFCreateError EFOpenError EFilerError EReadError EWriteError EClassNotFound EResNotFound EListError EBitsError EStringListError EComponentError
  EParserError EInvalidOperation EThread EMenuError EInvalidGraphic EInvalidGraphicOperation EOleError EOleSysError EOleException ERegistryException
`);
const delphi = [
  ...delphiCode,
  ...['', 'Vcl.', 'System.', 'Winapi.'].flatMap((space) => UNITS.map((unit) => `${space}${unit}\0`)),
  ...CLASSES.map((name) => `${String.fromCharCode(name.length)}${name}`),
  ...['Borland', 'CodeGear', 'Embarcadero'].map((maker) => `Software\\${maker}\\Locales\0`),
  'SOFTWARE\\Borland\\Delphi\\RTL\0FPUMaskValue\0',
  'Runtime error     at 00000000\0',
  'Portions Copyright (c) 1983,99 Borland',
  'Exception in safecall method\0',
];

/** Names of its classes, and what its library keeps in the registry. https://learn.microsoft.com/cpp/mfc/mfc-desktop-applications */
const foundationClasses = words(`
  CArchiveException CMemoryException CNotSupportedException CUserException CResourceException CFileException CInvalidArgException COleException
  COleDispatchException CObject CCmdTarget CWinThread CWinApp CWinAppEx CWnd CFrameWnd CMDIFrameWnd CMDIChildWnd CDialog CDialogEx CDocument
  CView CScrollView CFormView CEditView CDocTemplate CSingleDocTemplate CMultiDocTemplate CDC CClientDC CWindowDC CPaintDC CGdiObject
  CPen CBrush CFont CBitmap CPalette CRgn CMenu CImageList CButton CComboBox CEdit CListBox CStatic CScrollBar CToolBar CStatusBar CControlBar
  CDialogBar CPropertyPage CPropertySheet CCommonDialog CFileDialog CColorDialog CFontDialog CPrintDialog CFindReplaceDialog CToolTipCtrl CMapPtrToPtr
  CMapStringToPtr CMapStringToOb CObArray CPtrArray CPtrList CStringArray CDWordArray CByteArray CTempWnd CTempDC CTempMenu CTempGdiObject
  CTempImageList CHandleMap AfxWnd42 AfxWnd42s AfxFrameOrView42 AfxFrameOrView42s AfxControlBar42 AfxMDIFrame42 AfxOleControl42 AfxWnd90s
  AfxFrameOrView90s NoNetConnectDisconnect NoRecentDocsHistory RestrictRun NoEntireNetwork NoPlacesBar NoBackButton commdlg_help commdlg_FindReplace
  commdlg_ColorOK commdlg_FileNameOK commdlg_LBSelChangedNotify commdlg_ShareViolation commdlg_SetRGBColor commctrl_DragListMsg
`).map((name) => `${name}\0`);

/** Names of types that programs with Microsoft's C++ library have, as its compiler writes them: `D` is a char, `_W` and `G` are wide ones. */
const STREAMS = words(
  'basic_ios basic_istream basic_ostream basic_iostream basic_streambuf basic_filebuf basic_ifstream basic_ofstream basic_fstream',
);
const STRINGS = words('basic_string basic_stringbuf basic_istringstream basic_ostringstream basic_stringstream');
const cppTypes = [
  ...words(`
    exception bad_alloc bad_cast bad_typeid bad_exception bad_array_new_length logic_error length_error out_of_range invalid_argument domain_error
    runtime_error overflow_error underflow_error range_error ios_base failure@ios_base facet@locale _Locimp@locale _Facet_base codecvt_base ctype_base
    time_base messages_base money_base error_category _Generic_error_category _Iostream_error_category _System_error_category system_error
    _System_error bad_weak_ptr bad_function_call regex_error _Ref_count_base _Ref_count_base@tr1 bad_weak_ptr@tr1 bad_function_call@tr1
    regex_error@tr1 _Node_base@tr1 _Root_node@tr1 __non_rtti_object
  `).map((name) => `.?AV${name}@std@@\0`),
  ...['D', '_W', 'G'].flatMap((letter) => [
    ...STREAMS.map((name) => `.?AV?$${name}@${letter}U?$char_traits@${letter}@std@@@std@@\0`),
    ...STRINGS.map((name) => `.?AV?$${name}@${letter}U?$char_traits@${letter}@std@@V?$allocator@${letter}@2@@std@@\0`),
    ...words('ctype numpunct').map((name) => `.?AV?$${name}@${letter}@std@@\0`),
    ...words('num_get num_put').map((name) => `.?AV?$${name}@${letter}V?$`),
    `.?AV?$codecvt@${letter}DH@std@@\0`,
  ]),
  ...words(
    '.?AVtype_info@@ .?AV_com_error@@ .?AVCAtlException@ATL@@ .?AVCAtlModule@ATL@@ .?AVCComModule@ATL@@ .?AUIUnknown@@ .?AUIDispatch@@',
  ),
  ...words(
    '.?AV?$_Ref_count@ .?AV?$_Ref_count_del@ .?AV?$shared_ptr@ .?AV?$_Func_base@ .?AV?$_Func_impl@ .?AV?$_Callable_obj@ .?AV?$_Iosb@H@std@@',
  ),
  ...['@@@', '@@', '@'].flatMap((before) => [
    `${before}tr1@std@@\0`,
    `${before}tr1@std@@@`,
    `V?$shared_ptr@V`,
    `${before}std@@\0`,
  ]),
];

/** Of the run-time library of Visual Basic 6, as programs import it. */
const visualBasic6 = words(`
  AryCopy AryDestruct AryLock AryMove AryUnlock AryVar BoolVar BoolVarNull ChkstkCheck CastObj CopyBytes CyErrMulI4 CyStr DateVar End Erase ErrorOverflow
  ExceptHandler ExitProc FailedFriend FileClose FileOpen FpCDblR4 FpI2 FpI4 FpR4 FpR8 FreeObj FreeObjList FreeStr FreeStrList FreeVar FreeVarList
  GenerateBoundsError Get3 Get4 GetOwner3 HresultCheckObj I2I4 I2Str I2Var I4Str I4Var InStr InStrVar LateIdCall LateIdCallLd LateIdSt LateMemCall
  LateMemCallLd LateMemSt Lbound LenBstr LenVar LineInputStr Nan New New2 NextEachVar ObjIs ObjSet ObjSetAddref ObjVar OnError OnGoCheck
  Print PrintFile PrintObj Put3 Put4 PutOwner3 R8IntI4 R8Str R8Var RaiseEvent RecAnsiToUni RecDestruct RecUniToAnsi Redim RedimPreserve RefVarAry
  Resume SetSystemError StopExe StrBool StrCat StrCmp StrComp StrCopy StrFixstr StrI2 StrI4 StrLike StrMove StrR4 StrR8 StrToAnsi StrToUnicode StrVarCopy
  StrVarMove StrVarVal UI1I2 UI1I4 UI1Str UI1Var Ubound UnkVar VarAdd VarAnd VarCat VarCmpEq VarCmpGt VarCmpLt VarCmpNe VarCopy VarDiv VarDup
  VarForInit VarForNext VarIndexLoad VarLateMemCallLd VarMod VarMove VarMul VarNeg VarNot VarOr VarSub VarTstEq VarTstGe VarTstGt VarTstLt VarTstNe
  VarVargNofree VarZero WriteFile
`).map((name) => `__vba${name}\0`);

/** Common names in certificates of authorities and of those who sign times. */
const AUTHORITIES = `
  AAA Certificate Services/AddTrust External CA Root/UTN-USERFirst-Object/USERTrust RSA Certification Authority/COMODO Certification Authority
  COMODO RSA Certification Authority/COMODO RSA Code Signing CA/COMODO Code Signing CA 2/COMODO RSA Extended Validation Code Signing CA
  COMODO Time Stamping Signer/COMODO SHA-1 Time Stamping Signer/COMODO SHA-256 Time Stamping Signer/Sectigo RSA Code Signing CA
  Sectigo Public Code Signing CA R36/Sectigo Public Code Signing Root R46/Sectigo RSA Time Stamping CA/Sectigo RSA Time Stamping Signer #1
  Sectigo RSA Time Stamping Signer #2/Sectigo RSA Time Stamping Signer #3/Sectigo RSA Time Stamping Signer #4/Sectigo Public Time Stamping CA R36
  Sectigo Public Time Stamping Signer R35/Sectigo Public Time Stamping Signer R36/Sectigo Public Time Stamping Root R46
  DigiCert Assured ID Root CA/DigiCert Assured ID CA-1/DigiCert Assured ID Code Signing CA-1/DigiCert SHA2 Assured ID Code Signing CA
  DigiCert SHA2 Assured ID Timestamping CA/DigiCert Timestamp Responder/DigiCert Timestamp 2021/DigiCert Timestamp 2022 - 2/DigiCert Timestamp 2023
  DigiCert Trusted Root G4/DigiCert Trusted G4 RSA4096 SHA256 TimeStamping CA/DigiCert Trusted G4 Code Signing RSA4096 SHA384 2021 CA1
  DigiCert High Assurance EV Root CA/DigiCert EV Code Signing CA (SHA2)/VeriSign Class 3 Public Primary Certification Authority - G5
  VeriSign Class 3 Code Signing 2004 CA/VeriSign Class 3 Code Signing 2009-2 CA/VeriSign Class 3 Code Signing 2010 CA/VeriSign Time Stamping Services CA
  VeriSign Time Stamping Services Signer - G2/VeriSign Universal Root Certification Authority/Symantec Class 3 SHA256 Code Signing CA
  Symantec Time Stamping Services CA - G2/Symantec Time Stamping Services Signer - G4/Symantec SHA256 TimeStamping CA
  Symantec SHA256 TimeStamping Signer - G2/Symantec SHA256 TimeStamping Signer - G3/Thawte Timestamping CA/Thawte Code Signing CA/Thawte Code Signing CA - G2
  thawte Primary Root CA/thawte SHA256 Code Signing CA/GlobalSign Root CA/GlobalSign CodeSigning CA - G2/GlobalSign CodeSigning CA - SHA256 - G3
  GlobalSign Timestamping CA - G2/GlobalSign TSA for MS Authenticode - G2/GlobalSign TSA for Standard - G2/GlobalSign Extended Validation CodeSigning CA - SHA256 - G3
  Go Daddy Class 2 Certification Authority/Go Daddy Root Certificate Authority - G2/Go Daddy Secure Certification Authority
  Go Daddy Secure Certificate Authority - G2/Starfield Services Timestamp Authority/Starfield Services Root Certificate Authority
  Entrust Root Certification Authority - G2/Entrust Code Signing Certification Authority - L1D/Entrust.net Certification Authority (2048)
  StartCom Certification Authority/StartCom Class 2 Primary Intermediate Object CA/StartCom Class 3 Primary Intermediate Object CA
  Certum CA/Certum Level III CA/Certum Trusted Network CA/Certum Trusted Network CA 2/Certum Code Signing CA SHA2/Certum Code Signing 2021 CA/Certum Timestamp 2023
  Microsoft Code Verification Root/Microsoft Root Authority/Microsoft Root Certificate Authority 2010/Microsoft Root Certificate Authority 2011
  Microsoft Time-Stamp PCA 2010/Microsoft Time-Stamp Service/Microsoft Timestamping PCA/Microsoft Code Signing PCA/Microsoft Code Signing PCA 2011
  VeriSign, Inc./VeriSign Trust Network/Symantec Corporation/Symantec Trust Network/thawte, Inc./Thawte Certification/DigiCert Inc/www.digicert.com
  COMODO CA Limited/Sectigo Limited/The USERTRUST Network/http://www.usertrust.com/GlobalSign nv-sa/GoDaddy.com, Inc./Starfield Technologies, Inc.
  Entrust, Inc./StartCom Ltd./Secure Digital Certificate Signing/Unizeto Technologies S.A./Certum Certification Authority/Asseco Data Systems S.A.
  Microsoft Corporation/Greater Manchester/Salford/Salt Lake City/Scottsdale/Redmond/Washington/Western Cape/Durbanville
`
  .trim()
  .split(/\/|\n\s*/);
/** X.520: country to common name. In front of a text are its type and its length. */
const ATTRIBUTES = ['\x03', '\x06', '\x07', '\x08', '\x0a', '\x0b'];
const names = AUTHORITIES.flatMap((name) =>
  ATTRIBUTES.flatMap((attribute) =>
    ['\x0c', '\x13'].flatMap((type) =>
      ['0', '1'].map((next) => `\x06\x03U\x04${attribute}${type}${String.fromCharCode(name.length)}${name}${next}`),
    ),
  ),
);

/** Of installers, by their makers' sources; and of Windows' own providers, by wincrypt.h. */
const marks = [
  'Inno Setup Setup Data (',
  'Inno Setup Messages (',
  'Inno Setup Uninstall Log (b)',
  'This installation was built with Inno Setup.',
  'Inno Setup version ',
  'NullsoftInst',
  'Nullsoft.NSIS.exehead',
  'http://nsis.sf.net/NSIS_Error',
  ...['Base', 'Strong', 'Enhanced'].map((kind) => `Microsoft ${kind} Cryptographic Provider v1.0\0`),
  'Microsoft Enhanced RSA and AES Cryptographic Provider\0',
];

/** In letters of one byte: what is said in them holds for wide ones as well. */
export const programTexts: readonly string[] = [
  ...functions(),
  ...libraries,
  ...registry,
  ...cLibrary,
  ...delphi,
  ...foundationClasses,
  ...cppTypes,
  ...visualBasic6,
  ...names,
  ...marks,
];
